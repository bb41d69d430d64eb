SELECT e.effect_id, e.effect_type, e.declared_compensation, e.mission_id,
       jsonb_build_object('effect_id', e.effect_id, 'effect_type', e.effect_type, 'idempotency_key', e.idempotency_key,
           'job_id', e.job_id, 'outcome_unknown', e.status = 'executing'),
       e.payload, e.result
FROM agentq.effect e
WHERE e.chain_id = $1 AND e.seq < $2
ORDER BY e.seq DESC
LIMIT 1
