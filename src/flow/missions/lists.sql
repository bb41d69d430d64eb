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
