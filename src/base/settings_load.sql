SELECT 'agentq.config'::regclass::oid,
       'agentq.queue'::regclass::oid,
       (SELECT jsonb_object_agg(key, value) FROM agentq.config),
       (SELECT jsonb_agg(jsonb_build_object('queue_id', queue_id, 'queue', queue, 'lease_seconds', lease_seconds,
            'max_attempts', max_attempts, 'priority', priority, 'paused', paused_at IS NOT NULL)) FROM agentq.queue)
