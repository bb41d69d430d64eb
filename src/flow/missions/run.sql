-- name: step_bump(step uuid, ended int4, met int4, job uuid, at timestamptz, counted_in int4)
UPDATE agentq_internal.mission_step
SET pending = pending - $2,
    met = met + $3,
    status = CASE WHEN met + $3 >= need AND spec IS NULL AND executor IS NULL THEN 'queued' ELSE 'waiting' END,
    job_id = CASE WHEN met + $3 >= need AND spec IS NULL AND executor IS NULL THEN $4 END,
    queued_at = CASE WHEN met + $3 >= need AND spec IS NULL AND executor IS NULL THEN $5 END,
    shard = $6
WHERE step_id = $1 AND status = 'waiting' AND ready_at IS NULL
RETURNING step_id, children::integer, fails_mission, name, kind, executor, params, spec, job_id, shard,
    need::integer, met::integer, pending::integer

-- name: step_done(id uuid, status text, result jsonb, error text, now timestamptz)
UPDATE agentq_internal.mission_step SET status = $2, result = $3, last_error = $4, ended_at = $5
WHERE step_id = $1 AND status = 'waiting'

-- name: steps_hold(ids uuid[], held_at timestamptz)
UPDATE agentq_internal.mission_step SET status = 'waiting', job_id = NULL, queued_at = NULL, ready_at = $2
WHERE step_id = ANY ($1) AND status IN ('waiting', 'queued')
