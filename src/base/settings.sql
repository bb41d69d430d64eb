-- name: settings_load()
SELECT (SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'agentq') AS version,
       (SELECT jsonb_object_agg(key, value) FROM agentq.config) AS values,
       (SELECT updated_at FROM agentq.config WHERE key = 'queue.job_substrate.enabled') AS switched_at
