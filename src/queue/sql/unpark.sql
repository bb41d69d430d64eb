UPDATE agentq.job SET parked = NULL, scheduled_at = $2, resting_state = $3 WHERE job_id = $1
