SELECT step_id, name, kind, status FROM agentq.v_mission_step WHERE mission_id = $1 ORDER BY position
