UPDATE agentq.job SET waits_for = $2 || jsonb_build_object('at', scheduled_at) WHERE job_id = $1
