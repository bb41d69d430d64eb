SELECT jsonb_build_object('effect_id', e.effect_id, 'seq', e.seq, 'effect_type', e.effect_type, 'status', e.status,
    'idempotency_key', e.idempotency_key, 'declared_compensation', e.declared_compensation, 'result', e.result, 'new', false),
    e.payload = $4
FROM agentq.effect e
WHERE e.job_id = $1 AND e.effect_type = $2 AND e.idempotency_key = $3
