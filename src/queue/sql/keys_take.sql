INSERT INTO agentq.job_key (idempotency_key, job_id)
SELECT key, id FROM unnest($1, $2) AS wanted(key, id) ORDER BY key COLLATE "C"
ON CONFLICT (idempotency_key) DO NOTHING
RETURNING idempotency_key, job_id
