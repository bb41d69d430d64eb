SELECT step_id FROM agentq.mission_step WHERE step_id = $1 AND status = 'queued' FOR UPDATE
