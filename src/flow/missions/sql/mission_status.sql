SELECT status FROM agentq.mission WHERE mission_id = $1
