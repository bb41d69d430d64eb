-- name: handler_set(job_kind text, sql text, role_name text, queue text, timeout_seconds int4, enabled bool,
--   registered_by text, now timestamptz)
INSERT INTO agentq.job_handler AS h (job_kind, sql, role_name, queue, timeout_seconds, enabled, registered_by, created_at,
    updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
ON CONFLICT (job_kind) DO UPDATE
SET sql = excluded.sql, role_name = excluded.role_name, queue = excluded.queue,
    timeout_seconds = excluded.timeout_seconds, enabled = excluded.enabled, registered_by = excluded.registered_by,
    updated_at = excluded.updated_at
RETURNING jsonb_build_object('ok', true, 'code', CASE WHEN h.xmax = 0 THEN 'created' ELSE 'updated' END,
    'job_kind', h.job_kind, 'role', h.role_name, 'queue', h.queue, 'timeout_seconds', h.timeout_seconds,
    'enabled', h.enabled)

-- name: handler_remove(kind text)
DELETE FROM agentq.job_handler WHERE job_kind = $1
RETURNING jsonb_build_object('ok', true, 'code', 'removed', 'job_kind', job_kind)

-- name: handlers()
SELECT job_kind, sql, role_name::text, queue, timeout_seconds, registered_by::text FROM agentq.job_handler WHERE enabled ORDER BY job_kind
