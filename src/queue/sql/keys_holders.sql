SELECT idempotency_key, job_id FROM agentq.job_key WHERE idempotency_key = ANY ($1)
UNION ALL
SELECT j.job_id::text, j.job_id FROM agentq.job j
WHERE j.job_id = ANY ($2) AND j.idempotency_key IS NULL
  AND NOT EXISTS (SELECT FROM agentq.job_done d WHERE d.job_id = j.job_id)
