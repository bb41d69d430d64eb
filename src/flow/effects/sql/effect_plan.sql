INSERT INTO agentq.effect AS e (effect_id, mission_id, step_id, job_id, effect_type, payload, idempotency_key,
    declared_compensation, counter_effects, idempotent, manifest_version, compensates, planned_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
ON CONFLICT (job_id, effect_type, idempotency_key) DO NOTHING
RETURNING jsonb_build_object('effect_id', e.effect_id, 'seq', e.seq, 'effect_type', e.effect_type, 'status', e.status,
    'idempotency_key', e.idempotency_key, 'declared_compensation', e.declared_compensation, 'result', e.result, 'new', true)
