SELECT $1 || jsonb_build_object('checkpoint', checkpoint) FROM agentq.job_checkpoint WHERE job_id = $2
