-- name: reactions_clean(before timestamptz, most int8)
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

-- name: commands_clean(before timestamptz, most int8)
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

-- name: counts_clean(before timestamptz)
DELETE FROM agentq_internal.proposal_count WHERE day < ($1 AT TIME ZONE 'UTC')::date
