-- name: compensated_by(job_id uuid)
SELECT effect_id, declared_compensation, mission_id, step_id FROM agentq_internal.effect WHERE compensation_job_id = $1

-- name: effect_plan(effect_id uuid, mission_id uuid, step_id uuid, job_id uuid, effect_type text, payload jsonb,
--   idempotency_key text, declared_compensation text, counter_effects bool, idempotent bool, manifest_version int8,
--   compensates uuid, planned_at timestamptz)
INSERT INTO agentq_internal.effect AS e (effect_id, mission_id, step_id, job_id, effect_type, payload, idempotency_key,
    declared_compensation, counter_effects, idempotent, manifest_version, compensates, planned_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
ON CONFLICT (job_id, effect_type, idempotency_key) DO NOTHING
RETURNING jsonb_build_object('effect_id', e.effect_id, 'seq', e.seq, 'effect_type', e.effect_type, 'status', e.status,
    'idempotency_key', e.idempotency_key, 'declared_compensation', e.declared_compensation, 'result', e.result, 'new', true)

-- name: effect_by_key(job_id uuid, effect_type text, key text, payload jsonb)
SELECT jsonb_build_object('effect_id', e.effect_id, 'seq', e.seq, 'effect_type', e.effect_type, 'status', e.status,
    'idempotency_key', e.idempotency_key, 'declared_compensation', e.declared_compensation, 'result', e.result, 'new', false) AS told,
    e.payload = $4 AS same
FROM agentq_internal.effect e
WHERE e.job_id = $1 AND e.effect_type = $2 AND e.idempotency_key = $3
