-- name: end_leave(end_id uuid, hook text, about text, job_id uuid, state text, result jsonb, error text, context jsonb)
INSERT INTO agentq_internal.job_end_due (end_id, hook, about, job_id, state, result, error, context)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)

-- before: end_leave(end_id uuid, hook text, about text, job_id uuid, state text, result jsonb, error text, context jsonb)
-- There the end of a job waits, and nothing is left.
SELECT NULL::uuid WHERE num_nulls($1, $2, $3, $4, $5, $6, $7, $8) < 0

-- name: ends_left(after uuid, left_alone uuid[], most int8)
SELECT end_id, hook, about, job_id, state, result, error, context
FROM agentq_internal.job_end_due WHERE end_id > $1 AND end_id <> ALL ($2) ORDER BY end_id LIMIT $3 FOR UPDATE SKIP LOCKED

-- before: ends_left(after uuid, left_alone uuid[], most int8)
SELECT NULL::uuid AS end_id, NULL::text AS hook, NULL::text AS about, NULL::uuid AS job_id, NULL::text AS state,
       NULL::jsonb AS result, NULL::text AS error, NULL::jsonb AS context
WHERE num_nulls($1, $2, $3) < 0

-- name: end_told(end_id uuid)
DELETE FROM agentq_internal.job_end_due WHERE end_id = $1

-- before: end_told(end_id uuid)
SELECT NULL::uuid AS told WHERE num_nulls($1) < 0
