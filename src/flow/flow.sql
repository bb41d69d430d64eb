-- name: expire_action(now timestamptz, most int8)
WITH old AS (
    SELECT ctid AS tid FROM agentq.action WHERE expires_at <= $1 AND (status <> 'in_progress' OR lease_until <= $1)
    ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM agentq.action t USING old WHERE t.ctid = old.tid RETURNING 1
)
SELECT count(*) FROM gone

-- name: expire_signal(now timestamptz, most int8)
WITH old AS (
    SELECT ctid AS tid FROM agentq.signal WHERE expires_at <= $1 AND NOT wake_pending ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM agentq.signal t USING old WHERE t.ctid = old.tid RETURNING 1
)
SELECT count(*) FROM gone
