-- name: action_begin(action_key text, action_type text, inputs_hash text, inputs_keys jsonb, holder text,
--   token uuid, job_id uuid, lease_token uuid, began_at timestamptz, lease_seconds float8, keep_seconds float8)
INSERT INTO agentq.action (action_key, action_type, inputs_hash, inputs_keys, holder, token, job_id, lease_token, began_at,
    lease_until, keep_seconds, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9 + make_interval(secs => $10), $11,
    $9 + make_interval(secs => greatest($10, $11)))
ON CONFLICT (action_key) DO NOTHING
RETURNING lease_until

-- name: action_lock(key text)
SELECT action_type, inputs_hash, inputs_keys, status, holder, token, attempts, lease_until, executed_at, expires_at, result,
       job_id, lease_token
FROM agentq.action
WHERE action_key = $1
FOR UPDATE

-- name: action_win(key text, action_type text, inputs_hash text, inputs_keys jsonb, holder text, token uuid,
--   job_id uuid, lease_token uuid, now timestamptz, lease_seconds float8, keep_seconds float8, anew bool)
UPDATE agentq.action
SET action_type = $2, inputs_hash = $3, inputs_keys = $4, holder = $5, token = $6, job_id = $7, lease_token = $8,
    began_at = $9, lease_until = $9 + make_interval(secs => $10), keep_seconds = $11,
    expires_at = $9 + make_interval(secs => greatest($10, $11)),
    status = 'in_progress', executed_at = NULL, result = NULL, error = NULL,
    attempts = CASE WHEN $12 THEN 1 ELSE attempts + 1 END
WHERE action_key = $1
RETURNING lease_until, attempts

-- name: action_end(key text, now timestamptz, result jsonb, error text)
UPDATE agentq.action
SET status = CASE WHEN $4 IS NULL THEN 'done' ELSE 'failed' END, result = $3, error = $4,
    executed_at = CASE WHEN $4 IS NULL THEN $2 END,
    lease_until = $2, expires_at = $2 + make_interval(secs => keep_seconds)
WHERE action_key = $1
RETURNING expires_at
