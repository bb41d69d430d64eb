UPDATE agentq.action
SET action_type = $2, inputs_hash = $3, inputs_keys = $4, holder = $5, token = $6, job_id = $7, lease_token = $8,
    began_at = $9, lease_until = $9 + make_interval(secs => $10), keep_seconds = $11,
    expires_at = $9 + make_interval(secs => greatest($10, $11)),
    status = 'in_progress', executed_at = NULL, result = NULL, error = NULL,
    attempts = CASE WHEN $12 THEN 1 ELSE attempts + 1 END
WHERE action_key = $1
RETURNING lease_until, attempts
