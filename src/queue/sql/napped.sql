SELECT job_id FROM agentq.job_attempt_log WHERE job_id = $1 AND lease_token = $2 AND outcome IN ('slept', 'waiting')
