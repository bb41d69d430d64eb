SELECT EXISTS (SELECT FROM agentq.job WHERE job_id = $1) AND NOT EXISTS (SELECT FROM agentq.job_done WHERE job_id = $1)
