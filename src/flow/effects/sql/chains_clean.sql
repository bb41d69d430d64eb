WITH old AS MATERIALIZED (
    SELECT c.chain_id FROM agentq.effect_chain c
    WHERE c.chain_id <= $1 AND c.ended_at < $3
      AND NOT EXISTS (SELECT FROM agentq.effect e WHERE e.chain_id = c.chain_id)
    ORDER BY c.chain_id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM agentq.effect_chain c USING old WHERE c.chain_id = old.chain_id RETURNING c.chain_id
)
SELECT count(*) FROM gone
