INSERT INTO agentq.job_blocked (queue_id, any_queue_id, job_kind, priority, scheduled_at, job_id, keyed, blocked_by)
SELECT queue_id, queue_id, job_kind, priority, scheduled_at, job_id, idempotency_key IS NOT NULL, $2
FROM agentq.job WHERE job_id = $1
