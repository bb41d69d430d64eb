SELECT name, position, status, idempotent FROM agentq.job_step WHERE order_job_id = $1 ORDER BY position
