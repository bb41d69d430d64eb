UPDATE agentq.action
SET status = CASE WHEN $4 IS NULL THEN 'done' ELSE 'failed' END, result = $3, error = $4,
    executed_at = CASE WHEN $4 IS NULL THEN $2 END,
    lease_until = $2, expires_at = $2 + make_interval(secs => keep_seconds)
WHERE action_key = $1
RETURNING expires_at
