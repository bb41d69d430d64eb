UPDATE agentq.job_lease SET reserved = $2 WHERE job_id = $1
