SELECT job_id FROM agentq.job_step WHERE job_id = $1 AND name = $2 AND occurrence = $3 AND status = 'done'
