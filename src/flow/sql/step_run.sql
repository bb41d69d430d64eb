UPDATE agentq.job_step
SET status = 'begun', lease_token = $4, seen_by = $4, began_at = $5, ended_at = NULL, error = NULL,
    attempts = attempts + 1, idempotent = idempotent AND $6
WHERE job_id = $1 AND name = $2 AND occurrence = $3
