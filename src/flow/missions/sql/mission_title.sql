SELECT coalesce(title, mission_id::text) FROM agentq.mission WHERE mission_id = $1
