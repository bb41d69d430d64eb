-- name: budget_set(limit_key text, unit text, period text, budget jsonb, now timestamptz)
INSERT INTO agentq.budget AS b (limit_key, unit, period, amount, when_exhausted, description, created_at, updated_at)
VALUES ($1, $2, $3, ($4->>'amount')::numeric, coalesce($4->>'when_exhausted', 'wait'), $4->>'description', $5, $5)
ON CONFLICT (limit_key, unit, period) DO UPDATE
SET amount = excluded.amount,
    when_exhausted = CASE WHEN $4 ? 'when_exhausted' THEN excluded.when_exhausted ELSE b.when_exhausted END,
    description = CASE WHEN $4 ? 'description' THEN excluded.description ELSE b.description END,
    updated_at = excluded.updated_at
RETURNING jsonb_build_object('ok', true, 'code', CASE WHEN b.xmax = 0 THEN 'created' ELSE 'updated' END, 'key', b.limit_key,
    'unit', b.unit, 'period', b.period, 'amount', b.amount, 'when_exhausted', b.when_exhausted, 'description', b.description)

-- name: budget_remove(key text, unit text, period text)
DELETE FROM agentq.budget WHERE limit_key = $1 AND unit = $2 AND period = $3 RETURNING limit_key

-- name: lease_reserved(job_id uuid, texts text[])
UPDATE agentq_internal.job_lease SET reserved = $2 WHERE job_id = $1
