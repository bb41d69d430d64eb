INSERT INTO agentq.job_step (job_id, name, occurrence, position, kind, idempotent, lease_token, seen_by, began_at, until_at,
    inputs_hash, inputs_keys)
VALUES ($1, $2, $3,
    coalesce((SELECT s.position FROM agentq.job_step s WHERE s.order_job_id = $1 ORDER BY s.position DESC LIMIT 1), 0) + 1,
    $4, $5, $6, $6, $7, $8, $9, $10)
ON CONFLICT (job_id, name, occurrence) DO NOTHING
RETURNING position
