SELECT limits FROM agentq.job_lease WHERE job_id = $1
