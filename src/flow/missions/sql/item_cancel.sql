UPDATE agentq.mission_item SET status = 'cancelled', last_error = $4, ended_at = $5
WHERE step_id = $1 AND item = $2 AND status = 'queued' AND job_id = $3
RETURNING step_id
