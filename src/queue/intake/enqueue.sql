-- name: key_take(idempotency_key text, job_id uuid)
INSERT INTO agentq_internal.job_key (idempotency_key, job_id) VALUES ($1, $2)
ON CONFLICT (idempotency_key) DO NOTHING
RETURNING true

-- name: key_holder(key text, key_hash uuid)
SELECT jsonb_build_object('ok', true, 'code', 'duplicate', 'duplicate', true, 'job_id', q.job_id,
    'job_kind', q.job_kind, 'state', q.state, 'queue', q.queue, 'scheduled_at', q.scheduled_at)
FROM (
    SELECT job_id FROM agentq_internal.job_key WHERE idempotency_key = $1
    UNION ALL
    SELECT j.job_id FROM agentq_internal.job j
    WHERE j.job_id = $2 AND j.idempotency_key IS NULL
      AND NOT EXISTS (SELECT FROM agentq_internal.job_done d WHERE d.job_id = j.job_id)
) holder
JOIN agentq.job_queue q USING (job_id)
LIMIT 1
