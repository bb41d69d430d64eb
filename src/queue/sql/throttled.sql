SELECT job_id, expires_at FROM agentq.job_throttle WHERE idempotency_key = $1
