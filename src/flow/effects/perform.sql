-- name: effect_job(id uuid)
SELECT job_id FROM agentq_internal.effect WHERE effect_id = $1

-- name: effect_lock(id uuid)
SELECT e.status, e.idempotent, e.mission_id, e.job_id, l.lease_token, coalesce(l.lease_token = e.lease_token, false) AS is_mine,
       jsonb_build_object('effect_type', e.effect_type, 'idempotency_key', e.idempotency_key, 'payload', e.payload,
           'result', e.result, 'begun_at', e.begun_at) AS told,
       EXISTS (SELECT FROM agentq.effect_chain c WHERE c.chain_id = e.chain_id AND c.ended_at IS NULL) AS in_chain
FROM agentq_internal.effect e
LEFT JOIN agentq_internal.job_lease l ON l.job_id = e.job_id
WHERE e.effect_id = $1
FOR UPDATE OF e

-- name: effect_begin(id uuid, lease uuid, now timestamptz)
UPDATE agentq_internal.effect
SET status = 'executing', lease_token = $2, begun = begun + 1, begun_at = $3
WHERE effect_id = $1
RETURNING begun

-- name: effect_end(id uuid, status text, result jsonb, error text, now timestamptz)
UPDATE agentq_internal.effect
SET status = $2, result = $3, error = $4, ended_at = $5
WHERE effect_id = $1

-- name: effect_get(id uuid)
SELECT to_jsonb(e) - 'lease_token' || '{"ok": true, "code": "found"}' FROM agentq_internal.effect e WHERE effect_id = $1
