WITH looked AS MATERIALIZED (
    SELECT effect_id, job_id, chain_id FROM agentq.effect
    WHERE effect_id > $1 AND effect_id <= $2
    ORDER BY effect_id
    LIMIT $3
), old AS MATERIALIZED (
    SELECT l.effect_id, l.chain_id
    FROM looked l
    WHERE NOT EXISTS (SELECT FROM agentq.job j WHERE j.job_id = l.job_id)
      AND NOT EXISTS (SELECT FROM agentq.effect_chain c WHERE c.chain_id = l.chain_id AND c.status = 'running')
), locked AS MATERIALIZED (
    -- Looked at again when it is locked: a compensation may have just begun.
    SELECT e.effect_id FROM old JOIN agentq.effect e ON e.effect_id = old.effect_id
    WHERE e.status NOT IN ('executing', 'compensating', 'compensation_failed')
      AND e.chain_id IS NOT DISTINCT FROM old.chain_id
      AND coalesce(e.compensated_at, e.ended_at, e.planned_at) < $4
    FOR UPDATE OF e SKIP LOCKED
), gone AS (
    DELETE FROM agentq.effect e USING locked WHERE e.effect_id = locked.effect_id RETURNING e.effect_id
)
SELECT (SELECT count(*) FROM looked), (SELECT count(*) FROM gone),
    (SELECT effect_id FROM looked ORDER BY effect_id DESC LIMIT 1)
