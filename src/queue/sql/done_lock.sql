SELECT job_id FROM agentq.job_done WHERE job_id = $1 FOR UPDATE
