SELECT action_type, inputs_hash, inputs_keys, status, holder, token, attempts, lease_until, executed_at, expires_at, result,
       job_id, lease_token
FROM agentq.action
WHERE action_key = $1
FOR UPDATE
