UPDATE agentq.mission_step SET status = 'cancelled', last_error = $2, ended_at = $3
WHERE mission_id = $1 AND status = 'waiting'
