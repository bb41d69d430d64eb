UPDATE agentq.mission SET paused_at = $2, paused_reason = $3 WHERE mission_id = $1
