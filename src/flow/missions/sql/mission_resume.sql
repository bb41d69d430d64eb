UPDATE agentq.mission SET status = 'running', paused_at = NULL, paused_reason = NULL, started_at = coalesce(started_at, $2)
WHERE mission_id = $1
