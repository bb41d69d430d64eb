INSERT INTO agentq.job_order (queue_id, ordering_key, job_id) VALUES ($1, $2, $3)
ON CONFLICT (queue_id, ordering_key) DO NOTHING
RETURNING true
