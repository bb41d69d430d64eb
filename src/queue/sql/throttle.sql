INSERT INTO agentq.job_throttle AS t (idempotency_key, job_id, expires_at) VALUES ($1, $2, $4)
ON CONFLICT (idempotency_key) DO UPDATE SET job_id = excluded.job_id, expires_at = excluded.expires_at
WHERE t.expires_at <= $3
RETURNING true
