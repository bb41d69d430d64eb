INSERT INTO agentq.job_key (idempotency_key, job_id) VALUES ($1, $2)
ON CONFLICT (idempotency_key) DO NOTHING
RETURNING true
