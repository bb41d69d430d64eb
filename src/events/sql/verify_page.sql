SELECT l.seq, l.place, l.event_id, l.event_at, l.purpose, encode(l.digest, 'hex'), encode(l.hash, 'hex'),
       e.event_kind, e.subject, e.payload::text, e.source, e.tags, e.dedupe_key, e.correlation_id, e.trace_id, e.mission_id
FROM (SELECT * FROM agentq.event_log WHERE seq > $1 AND seq <= $2 ORDER BY seq FETCH FIRST ($3) ROWS WITH TIES) l
LEFT JOIN LATERAL (SELECT * FROM agentq.event e
                   WHERE e.event_id = l.event_id AND e.purpose = l.purpose AND e.event_at = l.event_at LIMIT 1) e ON true
ORDER BY l.seq, l.purpose
