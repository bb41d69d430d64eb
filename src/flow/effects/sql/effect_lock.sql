SELECT e.status, e.idempotent, l.lease_token, coalesce(l.lease_token = e.lease_token, false),
       jsonb_build_object('effect_type', e.effect_type, 'idempotency_key', e.idempotency_key, 'payload', e.payload,
           'result', e.result, 'begun_at', e.begun_at),
       EXISTS (SELECT FROM agentq.effect_chain c WHERE c.chain_id = e.chain_id AND c.ended_at IS NULL)
FROM agentq.effect e
LEFT JOIN agentq.job_lease l ON l.job_id = e.job_id
WHERE e.effect_id = $1
FOR UPDATE OF e
