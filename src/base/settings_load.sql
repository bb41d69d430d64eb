SELECT 'agentq.config'::regclass::oid,
       'agentq.queue'::regclass::oid,
       'agentq.error_class'::regclass::oid,
       'agentq.retry_policy'::regclass::oid,
       'agentq.limit_rule'::regclass::oid,
       'agentq.budget'::regclass::oid,
       (SELECT jsonb_object_agg(key, value) FROM agentq.config),
       (SELECT jsonb_agg(to_jsonb(q) || jsonb_build_object('paused', paused_at IS NOT NULL)) FROM agentq.queue q)
