-- name: chain_of_job(job_id uuid)
SELECT e.effect_id, e.chain_id, e.declared_compensation, c.mission_id AS chain_mission_id, j.last_error, e.seq,
       e.mission_id, m.depth
FROM agentq_internal.effect e
JOIN agentq.effect_chain c ON c.chain_id = e.chain_id
LEFT JOIN agentq.mission m ON m.mission_id = c.mission_id
LEFT JOIN agentq_internal.job j ON j.job_id = e.compensation_job_id
WHERE e.compensation_job_id = $1 AND e.status = 'compensating'

-- name: chain_lock(chain_id uuid)
SELECT chain_id FROM agentq.effect_chain WHERE chain_id = $1 AND status = 'running' FOR UPDATE

-- name: chain_next(chain_id uuid, seq int8)
SELECT e.effect_id, e.effect_type, e.declared_compensation, e.mission_id, e.job_id,
       jsonb_build_object('effect_id', e.effect_id, 'effect_type', e.effect_type, 'idempotency_key', e.idempotency_key,
           'job_id', e.job_id, 'outcome_unknown', e.status = 'executing') AS told,
       e.payload, e.result
FROM agentq_internal.effect e
WHERE e.chain_id = $1 AND e.seq < $2
ORDER BY e.seq DESC
LIMIT 1

-- name: chain_count(chain_id uuid)
UPDATE agentq.effect_chain SET compensated = compensated + 1 WHERE chain_id = $1

-- name: chain_end(chain_id uuid, status text, error text, now timestamptz)
UPDATE agentq.effect_chain c
SET status = $2, error = $3, ended_at = $4
WHERE chain_id = $1
RETURNING jsonb_build_object('chain_id', c.chain_id, 'mission_id', c.mission_id, 'job_id', c.job_id, 'effects', c.effects,
    'compensated', c.compensated, 'unknown', c.unknown, 'irreversible', c.irreversible) AS told, c.mission_id, c.job_id

-- name: effect_compensating(effect_id uuid, job_id uuid)
UPDATE agentq_internal.effect SET status = 'compensating', compensation_job_id = $2 WHERE effect_id = $1

-- name: effect_compensated(effect_id uuid, now timestamptz)
UPDATE agentq_internal.effect SET status = 'compensated', compensated_at = $2, error = NULL WHERE effect_id = $1

-- name: compensation_failed(effect_id uuid, error text)
UPDATE agentq_internal.effect SET status = 'compensation_failed', error = $2 WHERE effect_id = $1
