INSERT INTO agentq.job_waiting (scheduled_at, job_id) VALUES ($1, $2)
