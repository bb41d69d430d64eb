WITH old AS (
    SELECT ctid AS tid FROM agentq.event WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM agentq.event t USING old WHERE t.ctid = old.tid RETURNING 1
)
SELECT count(*) FROM gone
