WITH old AS MATERIALIZED (
    SELECT command_id FROM agentq.command
    WHERE created_at < $1 AND (state = 'rejected' OR finished_at IS NOT NULL)
    ORDER BY created_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM agentq.command c USING old WHERE c.command_id = old.command_id RETURNING c.command_id
)
SELECT count(*) FROM gone
