UPDATE agentq.job SET parked = $2 WHERE job_id = $1
