-- name: step_end(step_id uuid, status text, result jsonb, error text, now timestamptz, by uuid)
UPDATE agentq_internal.mission_step
SET status = $2, result = $3, last_error = $4, ended_at = $5
WHERE step_id = $1 AND status = 'queued' AND coalesce(job_id, child_id) IS NOT DISTINCT FROM $6
RETURNING children::integer, shard, fails_mission, name, kind
