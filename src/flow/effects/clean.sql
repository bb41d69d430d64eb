-- name: effects_clean(after uuid, youngest uuid, most int8, before timestamptz)
WITH looked AS MATERIALIZED (
    SELECT effect_id, job_id, chain_id FROM agentq_internal.effect
    WHERE effect_id > $1 AND effect_id <= $2
    ORDER BY effect_id
    LIMIT $3
), old AS MATERIALIZED (
    SELECT l.effect_id, l.chain_id
    FROM looked l
    WHERE NOT EXISTS (SELECT FROM agentq_internal.job j WHERE j.job_id = l.job_id)
      AND NOT EXISTS (SELECT FROM agentq.effect_chain c WHERE c.chain_id = l.chain_id AND c.status = 'running')
), locked AS MATERIALIZED (
    -- Looked at again when it is locked: a compensation may have just begun.
    SELECT e.effect_id FROM old JOIN agentq_internal.effect e ON e.effect_id = old.effect_id
    WHERE e.status NOT IN ('executing', 'compensating', 'compensation_failed')
      AND e.chain_id IS NOT DISTINCT FROM old.chain_id
      AND coalesce(e.compensated_at, e.ended_at, e.planned_at) < $4
    FOR UPDATE OF e SKIP LOCKED
), gone AS (
    DELETE FROM agentq_internal.effect e USING locked WHERE e.effect_id = locked.effect_id RETURNING e.effect_id
)
SELECT (SELECT count(*) FROM looked) AS looked_at, (SELECT count(*) FROM gone) AS removed,
    (SELECT effect_id FROM looked ORDER BY effect_id DESC LIMIT 1) AS last

-- name: chains_clean(youngest uuid, most int8, before timestamptz)
WITH old AS MATERIALIZED (
    SELECT c.chain_id FROM agentq.effect_chain c
    WHERE c.chain_id <= $1 AND c.ended_at < $3
      AND NOT EXISTS (SELECT FROM agentq_internal.effect e WHERE e.chain_id = c.chain_id)
    ORDER BY c.chain_id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM agentq.effect_chain c USING old WHERE c.chain_id = old.chain_id RETURNING c.chain_id
)
SELECT count(*) FROM gone

-- name: drift_clean(youngest uuid, most int8, before timestamptz)
WITH old AS MATERIALIZED (
    SELECT job_id, effect_type, drift FROM agentq_internal.effect_drift
    WHERE job_id <= $1 AND found_at < $3
    ORDER BY job_id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM agentq_internal.effect_drift d USING old
    WHERE d.job_id = old.job_id AND d.effect_type = old.effect_type AND d.drift = old.drift
    RETURNING d.job_id
)
SELECT count(*) FROM gone
