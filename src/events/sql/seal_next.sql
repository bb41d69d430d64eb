SELECT e.xid::text, e.event_id, e.event_at, e.purpose, e.event_kind, e.subject, e.payload::text, e.source, e.tags, e.dedupe_key,
       e.correlation_id, e.trace_id, e.mission_id
FROM agentq.event e
WHERE e.xid >= $1::xid8 AND e.xid < $2::xid8 AND (e.xid, e.event_id) > ($3::xid8, $4)
  AND pg_visible_in_snapshot(e.xid, $5::pg_snapshot)
  -- Counted, so that it is never made into a hash over the whole log.
  AND (e.xid > $6::xid8
       OR (SELECT count(*) FROM (SELECT FROM agentq.event_log l WHERE l.event_id = e.event_id LIMIT 1) placed) = 0)
ORDER BY e.xid, e.event_id LIMIT $7
