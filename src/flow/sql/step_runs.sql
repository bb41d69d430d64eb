SELECT job_id FROM agentq.job_lease WHERE job_id = $1 AND lease_token = $2
