UPDATE agentq.effect SET status = 'compensating', compensation_job_id = $2 WHERE effect_id = $1
