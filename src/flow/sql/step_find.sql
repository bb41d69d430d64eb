SELECT position, kind, status, idempotent, attempts, lease_token, seen_by, ended_at, until_at, inputs_hash, inputs_keys, result
FROM agentq.job_step
WHERE job_id = $1 AND name = $2 AND occurrence = $3
FOR NO KEY UPDATE
