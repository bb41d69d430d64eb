SELECT step_id FROM agentq.mission_step WHERE mission_id = $1 AND status = 'waiting' LIMIT 1
