SELECT e.event_id, e.purpose
FROM agentq.event e
JOIN agentq.event_seal s ON s.one AND s.sealed IS NOT NULL AND NOT s.adopting
WHERE pg_visible_in_snapshot(e.xid, s.sealed)
  AND ($1 IS NULL OR e.event_at >= $1) AND ($2 IS NULL OR e.event_at <= $2)
  AND e.event_at >= (SELECT c.dropped_before FROM agentq.event_chain c
                     WHERE c.chain = CASE e.purpose WHEN 'audit' THEN 'audit' ELSE 'usual' END)
  AND NOT EXISTS (SELECT FROM agentq.event_log l WHERE l.event_id = e.event_id)
ORDER BY e.event_id LIMIT 1
