INSERT INTO agentq.job_ready (queue_id, any_queue_id, job_kind, priority, scheduled_at, job_id, keyed)
SELECT $1, $1, $2, $3, $4, $5, idempotency_key IS NOT NULL FROM agentq.job WHERE job_id = $5
