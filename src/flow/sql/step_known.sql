SELECT occurrence FROM agentq.job_step WHERE job_id = $1 AND name = $2 ORDER BY occurrence DESC LIMIT 1
