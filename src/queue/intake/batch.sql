-- name: keys_take(keys text[], ids uuid[])
INSERT INTO agentq_internal.job_key (idempotency_key, job_id)
SELECT key, id FROM unnest($1, $2) AS wanted(key, id) ORDER BY key COLLATE "C"
ON CONFLICT (idempotency_key) DO NOTHING
RETURNING idempotency_key, job_id

-- name: keys_holders(keys text[], as_ids uuid[])
SELECT idempotency_key, job_id FROM agentq_internal.job_key WHERE idempotency_key = ANY ($1)
UNION ALL
SELECT j.job_id::text, j.job_id FROM agentq_internal.job j
WHERE j.job_id = ANY ($2) AND j.idempotency_key IS NULL
  AND NOT EXISTS (SELECT FROM agentq_internal.job_done d WHERE d.job_id = j.job_id)
