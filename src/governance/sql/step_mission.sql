SELECT mission_id FROM agentq.mission_step WHERE step_id = $1
