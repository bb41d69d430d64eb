-- name: step_find(job_id uuid, name text, occurrence int4)
SELECT position, kind, status, idempotent, attempts, lease_token, seen_by, ended_at, until_at, inputs_hash, inputs_keys, result
FROM agentq_internal.job_step
WHERE job_id = $1 AND name = $2 AND occurrence = $3
FOR NO KEY UPDATE

-- name: step_known(job_id uuid, name text)
SELECT occurrence FROM agentq_internal.job_step WHERE job_id = $1 AND name = $2 ORDER BY occurrence DESC LIMIT 1

-- name: step_passed(job_id uuid, name text, turn int4, token uuid)
SELECT status = 'done' AND seen_by = $4 FROM agentq_internal.job_step WHERE job_id = $1 AND name = $2 AND occurrence = $3

-- name: step_add(job_id uuid, name text, occurrence int4, kind text, idempotent bool, token uuid,
--   began_at timestamptz, until_at timestamptz, inputs_hash text, inputs_keys jsonb)
INSERT INTO agentq_internal.job_step (job_id, name, occurrence, position, kind, idempotent, lease_token, seen_by, began_at, until_at,
    inputs_hash, inputs_keys)
VALUES ($1, $2, $3,
    coalesce((SELECT s.position FROM agentq_internal.job_step s WHERE s.order_job_id = $1 ORDER BY s.position DESC LIMIT 1), 0) + 1,
    $4, $5, $6, $6, $7, $8, $9, $10)
ON CONFLICT (job_id, name, occurrence) DO NOTHING
RETURNING position

-- name: step_run(job_id uuid, name text, occurrence int4, token uuid, now timestamptz, may bool)
UPDATE agentq_internal.job_step
SET status = 'begun', lease_token = $4, seen_by = $4, began_at = $5, ended_at = NULL, error = NULL,
    attempts = attempts + 1, idempotent = idempotent AND $6
WHERE job_id = $1 AND name = $2 AND occurrence = $3

-- name: step_seen(job_id uuid, name text, occurrence int4, token uuid)
UPDATE agentq_internal.job_step SET seen_by = $4
WHERE job_id = $1 AND name = $2 AND occurrence = $3 AND seen_by IS DISTINCT FROM $4

-- name: step_end(job_id uuid, name text, occurrence int4, now timestamptz, result jsonb, error text)
UPDATE agentq_internal.job_step
SET status = CASE WHEN $6 IS NULL THEN 'done' ELSE 'failed' END, ended_at = $4, result = $5, error = $6
WHERE job_id = $1 AND name = $2 AND occurrence = $3 AND status = 'begun'

-- name: step_before(job_id uuid, position int4, token uuid)
SELECT seen_by IS NOT DISTINCT FROM $3
FROM agentq_internal.job_step
WHERE order_job_id = $1 AND position < $2
ORDER BY position DESC
LIMIT 1

-- name: step_expected(job_id uuid, token uuid)
SELECT name, occurrence
FROM agentq_internal.job_step
WHERE order_job_id = $1 AND seen_by IS DISTINCT FROM $2
ORDER BY position
LIMIT 1

-- name: steps_recorded(job_id uuid)
SELECT name, position, status, idempotent FROM agentq_internal.job_step WHERE order_job_id = $1 ORDER BY position

-- name: steps_take_over(from_job uuid, to_job uuid, before int4)
INSERT INTO agentq_internal.job_step (job_id, name, occurrence, position, kind, status, idempotent, attempts, began_at, ended_at,
    until_at, inputs_hash, inputs_keys, result)
SELECT $2, name, occurrence, position, kind, status, idempotent, attempts, began_at, ended_at, until_at, inputs_hash, inputs_keys, result
FROM agentq_internal.job_step
WHERE order_job_id = $1 AND position < $3 AND (status = 'done' OR status = 'begun' AND NOT idempotent)
ORDER BY position

-- name: last_done_at(job_id uuid)
SELECT greatest((SELECT max(s.ended_at) FROM agentq_internal.job_step s WHERE s.job_id = $1 AND s.status = 'done'),
                (SELECT max(e.ended_at) FROM agentq_internal.effect e WHERE e.job_id = $1 AND e.status = 'succeeded'))
