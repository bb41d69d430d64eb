SELECT mission_id FROM agentq.effect WHERE compensation_job_id = $1 AND mission_id IS NOT NULL LIMIT 1
