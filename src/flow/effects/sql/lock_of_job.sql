SELECT effect_id FROM agentq.effect WHERE job_id = $1 ORDER BY seq FOR UPDATE
