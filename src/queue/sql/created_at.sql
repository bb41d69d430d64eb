SELECT created_at FROM agentq.job WHERE job_id = $1
