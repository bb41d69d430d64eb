SELECT job_id FROM agentq.effect WHERE effect_id = $1
