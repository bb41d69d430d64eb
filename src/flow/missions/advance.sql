-- name: step_end(end uuid, status text, result jsonb, error text, now timestamptz, by uuid)
UPDATE agentq_internal.mission_step
SET status = $2, result = $3, last_error = $4, ended_at = $5
WHERE step_id = $1 AND status = 'queued' AND coalesce(job_id, child_id) IS NOT DISTINCT FROM $6
RETURNING mission_id, depth, children::integer, shard, fails_mission, name, kind

-- name: item_end(step uuid, item int4, status text, result jsonb, error text, now timestamptz, job_id uuid)
UPDATE agentq.mission_item i
SET status = $3, result = $4, last_error = $5, ended_at = $6
FROM agentq_internal.mission_step s
WHERE i.step_id = $1 AND i.item = $2 AND i.status = 'queued' AND i.job_id = $7 AND s.step_id = $1
RETURNING s.item_count

-- name: items_lock(step uuid)
SELECT step_id FROM agentq_internal.mission_step WHERE step_id = $1 AND status = 'queued' FOR UPDATE

-- name: items_result(step uuid)
SELECT jsonb_agg(i.result ORDER BY i.item) AS result,
       count(*) FILTER (WHERE i.status = 'succeeded') AS succeeded,
       count(*) AS items,
       (SELECT (s.spec->>'items_needed')::bigint FROM agentq_internal.mission_step s WHERE s.step_id = $1) AS needed,
       (array_agg(format('item %s: %s', i.item, i.last_error) ORDER BY i.item) FILTER (WHERE i.status <> 'succeeded'))[1] AS first_error,
       coalesce(bool_and(i.status IN ('succeeded', 'cancelled')), false) AS was_cancelled
FROM agentq.mission_item i WHERE i.step_id = $1

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
