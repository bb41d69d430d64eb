DELETE FROM agentq.job_key WHERE idempotency_key = $1 AND job_id = $2
