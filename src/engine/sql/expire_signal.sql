WITH old AS (
    SELECT ctid AS tid FROM agentq.signal WHERE expires_at <= $1 AND NOT wake_pending ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM agentq.signal t USING old WHERE t.ctid = old.tid RETURNING 1
)
SELECT count(*) FROM gone
