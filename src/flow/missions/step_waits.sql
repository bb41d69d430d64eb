-- name: step_wait_add(step_id uuid, until timestamptz, name text, key text, due_at timestamptz, now timestamptz)
INSERT INTO agentq.mission_wait (step_id, until, name, key, due_at, registered_at) VALUES ($1, $2, $3, $4, $5, $6)

-- before: step_wait_add(step_id uuid, until timestamptz, name text, key text, due_at timestamptz, now timestamptz)
SELECT NULL::uuid WHERE num_nulls($1, $2, $3, $4, $5, $6) < 0

-- name: step_waits_due(now timestamptz, most int8)
SELECT step_id, name, key, until, result FROM agentq.mission_wait WHERE due_at <= $1
ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED

-- before: step_waits_due(now timestamptz, most int8)
SELECT NULL::uuid AS step_id, NULL::text AS name, NULL::text AS key, NULL::timestamptz AS until, NULL::jsonb AS result
WHERE num_nulls($1, $2) < 0

-- name: step_wait_open(step_id uuid, now timestamptz)
-- A sender passes over a wait that somebody has locked, who may yet leave it as it was: so it is looked at again, but seldom.
UPDATE agentq.mission_wait SET is_open = true, due_at = least(until, $2 + greatest(interval '1 minute', $2 - registered_at)) WHERE step_id = $1

-- before: step_wait_open(step_id uuid, now timestamptz)
SELECT NULL::uuid AS opened WHERE num_nulls($1, $2) < 0

-- name: step_wait_later(step_id uuid, due_at timestamptz)
UPDATE agentq.mission_wait SET due_at = $2 WHERE step_id = $1

-- before: step_wait_later(step_id uuid, due_at timestamptz)
SELECT NULL::uuid AS put_off WHERE num_nulls($1, $2) < 0

-- name: step_wait_over(steps uuid[])
DELETE FROM agentq.mission_wait WHERE step_id = ANY ($1)

-- before: step_wait_over(steps uuid[])
SELECT NULL::uuid AS over WHERE num_nulls($1) < 0

-- name: step_wait_next()
SELECT (SELECT due_at FROM agentq.mission_wait ORDER BY due_at LIMIT 1)

-- before: step_wait_next()
SELECT NULL::timestamptz

-- name: step_waits_take_back(mission_id uuid)
WITH free AS MATERIALIZED (
    SELECT w.step_id, s.shard
    FROM agentq_internal.mission_step s JOIN agentq.mission_wait w ON w.step_id = s.step_id
    WHERE s.mission_id = $1 AND s.status = 'queued'
    ORDER BY w.step_id FOR UPDATE OF w SKIP LOCKED
)
DELETE FROM agentq.mission_wait w USING free WHERE w.step_id = free.step_id
RETURNING w.step_id, free.shard

-- before: step_waits_take_back(mission_id uuid)
SELECT NULL::uuid AS step_id, NULL::integer AS shard WHERE num_nulls($1) < 0

-- name: step_wait_give(name text, key text, result jsonb, now timestamptz)
WITH oldest AS MATERIALIZED (
    SELECT m.step_id FROM agentq.mission_wait m
    WHERE m.name = $1 AND m.key = $2 AND m.is_open
      AND NOT EXISTS (SELECT FROM agentq.signal_wait w WHERE w.name = $1 AND w.key = $2 AND w.registered_at < m.registered_at)
    ORDER BY m.registered_at, m.step_id LIMIT 1
    FOR UPDATE SKIP LOCKED
)
UPDATE agentq.mission_wait m SET result = $3, is_open = false, due_at = $4
FROM oldest WHERE m.step_id = oldest.step_id
RETURNING m.step_id

-- before: step_wait_give(name text, key text, result jsonb, now timestamptz)
SELECT NULL::uuid WHERE num_nulls($1, $2, $3, $4) < 0
