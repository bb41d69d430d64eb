WITH old AS (
    SELECT ctid AS tid FROM agentq.event_key
    WHERE purpose = $1 AND event_at < (SELECT dropped_before FROM agentq.event_chain WHERE chain = $2)
    ORDER BY event_at LIMIT $3 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM agentq.event_key k USING old WHERE k.ctid = old.tid RETURNING 1
)
SELECT count(*) FROM gone
