-- name: job_change(job_id uuid, changes jsonb)
UPDATE agentq_internal.job
SET priority = CASE WHEN $2 ? 'priority' THEN ($2->>'priority')::integer ELSE priority END,
    scheduled_at = CASE WHEN $2 ? 'scheduled_at' THEN ($2->>'scheduled_at')::timestamptz ELSE scheduled_at END,
    max_attempts = CASE WHEN $2 ? 'max_attempts' THEN ($2->>'max_attempts')::integer ELSE max_attempts END,
    payload_json = CASE WHEN $2 ? 'payload_json' THEN $2->'payload_json' ELSE payload_json END,
    source_ref = CASE WHEN $2 ? 'source_ref' THEN $2->>'source_ref' ELSE source_ref END,
    target_ref = CASE WHEN $2 ? 'target_ref' THEN $2->>'target_ref' ELSE target_ref END,
    payload_ref = CASE WHEN $2 ? 'payload_ref' THEN $2->>'payload_ref' ELSE payload_ref END
WHERE job_id = $1
RETURNING jsonb_build_object('ok', true, 'code', 'changed', 'job_id', job_id, 'priority', priority,
        'scheduled_at', scheduled_at, 'max_attempts', max_attempts) AS answer,
    job_id, queue_id, job_kind::text, priority::integer, scheduled_at

-- name: throttle(idempotency_key text, job_id uuid, now timestamptz, expires_at timestamptz)
INSERT INTO agentq_internal.job_throttle AS t (idempotency_key, job_id, expires_at) VALUES ($1, $2, $4)
ON CONFLICT (idempotency_key) DO UPDATE SET job_id = excluded.job_id, expires_at = excluded.expires_at
WHERE t.expires_at <= $3
RETURNING true

-- name: key_free(key text, job_id uuid)
DELETE FROM agentq_internal.job_key WHERE idempotency_key = $1 AND job_id = $2

-- name: throttled(key text)
SELECT job_id, expires_at FROM agentq_internal.job_throttle WHERE idempotency_key = $1

-- name: created_at(job_id uuid)
SELECT created_at FROM agentq_internal.job WHERE job_id = $1
