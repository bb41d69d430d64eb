SELECT position, step_id, status::text, fails_mission, result, last_error FROM agentq.mission_step WHERE mission_id = $1
