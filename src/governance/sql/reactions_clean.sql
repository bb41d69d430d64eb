WITH old AS MATERIALIZED (
    SELECT reaction_id FROM agentq.reaction
    WHERE created_at < $1 AND status IN ('done', 'failed', 'skipped')
    ORDER BY created_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM agentq.reaction r USING old WHERE r.reaction_id = old.reaction_id RETURNING r.reaction_id
)
SELECT count(*) FROM gone
