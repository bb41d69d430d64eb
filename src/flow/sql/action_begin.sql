INSERT INTO agentq.action (action_key, action_type, inputs_hash, inputs_keys, holder, token, job_id, lease_token, began_at,
    lease_until, keep_seconds, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9 + make_interval(secs => $10), $11,
    $9 + make_interval(secs => greatest($10, $11)))
ON CONFLICT (action_key) DO NOTHING
RETURNING lease_until
