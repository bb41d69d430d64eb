-- name: last_seq()
SELECT last_seq FROM agentq_internal.event_seal WHERE one

-- name: log_read(after int8, rows int8)
SELECT l.seq, l.event_id, l.event_at, l.purpose, e.event_kind, e.subject, e.source, e.tags, e.payload, e.mission_id, e.correlation_id,
       e.trace_id, e.origin
FROM (SELECT seq, event_id, event_at, purpose FROM agentq.event_log WHERE seq > $1 ORDER BY seq LIMIT $2) l
LEFT JOIN LATERAL (SELECT * FROM agentq.event e
                   WHERE e.event_id = l.event_id AND e.purpose = l.purpose AND e.event_at = l.event_at LIMIT 1) e ON true
ORDER BY l.seq

-- before: log_read(after int8, rows int8)
SELECT l.seq, l.event_id, l.event_at, l.purpose, e.event_kind, e.subject, e.source, e.tags, e.payload, e.mission_id, e.correlation_id::text,
       e.trace_id, NULL::text AS origin
FROM (SELECT seq, event_id, event_at, purpose FROM agentq.event_log WHERE seq > $1 ORDER BY seq LIMIT $2) l
LEFT JOIN LATERAL (SELECT * FROM agentq.event e
                   WHERE e.event_id = l.event_id AND e.purpose = l.purpose AND e.event_at = l.event_at LIMIT 1) e ON true
ORDER BY l.seq
