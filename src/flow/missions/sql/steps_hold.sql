UPDATE agentq.mission_step SET status = 'waiting', job_id = NULL, queued_at = NULL, ready_at = $2
WHERE step_id = ANY ($1) AND status IN ('waiting', 'queued')
