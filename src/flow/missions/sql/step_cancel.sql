UPDATE agentq.mission_step SET status = 'cancelled', last_error = $3, ended_at = $4
WHERE step_id = $1 AND status = 'queued' AND job_id IS NOT DISTINCT FROM $2
RETURNING step_id
