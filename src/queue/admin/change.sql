-- name: parked(job_id uuid)
SELECT j.attempts::integer, j.max_attempts::integer, j.last_error
FROM agentq_internal.job j WHERE j.job_id = $1 AND j.parked IS NOT NULL
  AND NOT EXISTS (SELECT FROM agentq_internal.job_done d WHERE d.job_id = j.job_id)

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
