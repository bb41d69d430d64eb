SELECT status = 'done' AND seen_by = $4 FROM agentq.job_step WHERE job_id = $1 AND name = $2 AND occurrence = $3
