UPDATE agentq.mission_step SET status = $2, result = $3, last_error = $4, ended_at = $5
WHERE step_id = $1 AND status = 'waiting'
