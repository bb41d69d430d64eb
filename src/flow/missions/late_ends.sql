-- name: late_end_add(end_id uuid, mission_id uuid, step_id uuid, item int4, status text, result jsonb, error text, by_id uuid,
--   context jsonb, now timestamptz)
INSERT INTO agentq_internal.mission_end_due (end_id, mission_id, step_id, item, status, result, error, by_id, context, due_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)

-- before: late_end_add(end_id uuid, mission_id uuid, step_id uuid, item int4, status text, result jsonb, error text, by_id uuid,
--   context jsonb, now timestamptz)
SELECT NULL::uuid WHERE num_nulls($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) < 0

-- name: late_ends_due(now timestamptz, most int8)
-- All that is due of a few missions, so that ends of one step come together.
SELECT end_id, mission_id, step_id, item, status::text AS status, result, error, by_id, context, tries
FROM agentq_internal.mission_end_due WHERE due_at <= $1
ORDER BY due_at, end_id LIMIT $2 FOR UPDATE SKIP LOCKED

-- before: late_ends_due(now timestamptz, most int8)
SELECT NULL::uuid AS end_id, NULL::uuid AS mission_id, NULL::uuid AS step_id, NULL::integer AS item, NULL::text AS status,
       NULL::jsonb AS result, NULL::text AS error, NULL::uuid AS by_id, NULL::jsonb AS context, NULL::integer AS tries
WHERE num_nulls($1, $2) < 0

-- name: late_end_over(end_id uuid)
DELETE FROM agentq_internal.mission_end_due WHERE end_id = $1

-- before: late_end_over(end_id uuid)
SELECT NULL::uuid AS over WHERE num_nulls($1) < 0

-- name: late_end_later(end_id uuid, due_at timestamptz)
UPDATE agentq_internal.mission_end_due SET due_at = $2, tries = least(tries + 1, 30) WHERE end_id = $1

-- before: late_end_later(end_id uuid, due_at timestamptz)
SELECT NULL::uuid AS put_off WHERE num_nulls($1, $2) < 0

-- name: late_end_next()
SELECT (SELECT due_at FROM agentq_internal.mission_end_due ORDER BY due_at LIMIT 1)

-- before: late_end_next()
SELECT NULL::timestamptz
