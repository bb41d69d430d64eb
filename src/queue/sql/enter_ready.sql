INSERT INTO agentq.job_ready (queue_id, any_queue_id, job_kind, priority, scheduled_at, job_id)
VALUES ($1, $1, $2, $3, $4, $5)
