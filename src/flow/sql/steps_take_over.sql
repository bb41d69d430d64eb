INSERT INTO agentq.job_step (job_id, name, occurrence, position, kind, status, idempotent, attempts, began_at, ended_at,
    until_at, inputs_hash, inputs_keys, result)
SELECT $2, name, occurrence, position, kind, status, idempotent, attempts, began_at, ended_at, until_at, inputs_hash, inputs_keys, result
FROM agentq.job_step
WHERE order_job_id = $1 AND position < $3 AND (status = 'done' OR status = 'begun' AND NOT idempotent)
ORDER BY position
