SELECT 'agentq.config'::regclass::oid,
       'agentq.queue'::regclass::oid,
       to_regclass('agentq.error_class')::oid,
       to_regclass('agentq.retry_policy')::oid,
       to_regclass('agentq.limit_rule')::oid,
       to_regclass('agentq.budget')::oid,
       (SELECT jsonb_object_agg(key, value) FROM agentq.config),
       (SELECT jsonb_agg(to_jsonb(q) || jsonb_build_object('paused', paused_at IS NOT NULL)) FROM agentq.queue q)
