-- name: late_end_add(mission_id uuid, end_id uuid, step_id uuid, item int4, status text, result jsonb, error text, by_id uuid,
--   context jsonb)
INSERT INTO agentq_internal.mission_end_due (mission_id, end_id, step_id, item, status, result, error, by_id, context)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)

-- before: late_end_add(mission_id uuid, end_id uuid, step_id uuid, item int4, status text, result jsonb, error text, by_id uuid,
--   context jsonb)
SELECT NULL::uuid WHERE num_nulls($1, $2, $3, $4, $5, $6, $7, $8, $9) < 0

-- name: late_missions(after uuid, left_alone uuid[], most int8)
-- From one mission to the next, however many ends each of them has.
WITH RECURSIVE late AS (
    (SELECT mission_id FROM agentq_internal.mission_end_due WHERE mission_id > $1 ORDER BY mission_id LIMIT 1)
    UNION ALL
    SELECT (SELECT d.mission_id FROM agentq_internal.mission_end_due d WHERE d.mission_id > late.mission_id
            ORDER BY d.mission_id LIMIT 1)
    FROM late WHERE late.mission_id IS NOT NULL
)
SELECT mission_id FROM late WHERE mission_id IS NOT NULL AND mission_id <> ALL ($2) LIMIT $3

-- before: late_missions(after uuid, left_alone uuid[], most int8)
SELECT NULL::uuid AS mission_id WHERE num_nulls($1, $2, $3) < 0

-- name: late_ends_of(mission_id uuid, most int8)
SELECT end_id, step_id, item, status::text AS status, result, error, by_id, context
FROM agentq_internal.mission_end_due WHERE mission_id = $1 ORDER BY end_id LIMIT $2 FOR UPDATE SKIP LOCKED

-- before: late_ends_of(mission_id uuid, most int8)
SELECT NULL::uuid AS end_id, NULL::uuid AS step_id, NULL::integer AS item, NULL::text AS status, NULL::jsonb AS result,
       NULL::text AS error, NULL::uuid AS by_id, NULL::jsonb AS context
WHERE num_nulls($1, $2) < 0

-- name: late_ends_over(mission_id uuid, ends uuid[])
DELETE FROM agentq_internal.mission_end_due WHERE mission_id = $1 AND end_id = ANY ($2)

-- before: late_ends_over(mission_id uuid, ends uuid[])
SELECT NULL::uuid AS over WHERE num_nulls($1, $2) < 0
