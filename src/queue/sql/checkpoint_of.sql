SELECT checkpoint, saved_at FROM agentq.job_checkpoint WHERE job_id = $1
