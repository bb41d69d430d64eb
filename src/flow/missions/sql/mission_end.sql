UPDATE agentq.mission
SET status = $2, completed_at = CASE WHEN $2 <> 'compensating' THEN $3::timestamptz END, paused_at = NULL, paused_reason = NULL
WHERE mission_id = $1
