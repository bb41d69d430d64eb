-- name: verify_page(after int8, upto int8, most int8)
SELECT l.seq, l.place, l.event_id, l.event_at, l.purpose, encode(l.digest, 'hex') AS digest,
       encode(l.hash, 'hex') AS hash,
       l.form::integer AS form, e.event_kind, e.subject, e.payload::text AS payload, e.source, e.tags, e.dedupe_key, e.correlation_id,
       e.trace_id, e.mission_id::text, e.origin, e.actor, e.target_type, e.target_id, e.command_id::text,
       e.agent_run_id::text, e.swarm_run_id::text, e.step_index::text, e.tool_name, e.latency_ms::text, e.token_usage::text,
       e.cost_units::text
FROM (SELECT * FROM agentq.event_log WHERE seq > $1 AND seq <= $2 ORDER BY seq FETCH FIRST ($3) ROWS WITH TIES) l
LEFT JOIN LATERAL (SELECT * FROM agentq.event e
                   WHERE e.event_id = l.event_id AND e.purpose = l.purpose AND e.event_at = l.event_at LIMIT 1) e ON true
ORDER BY l.seq, l.purpose

-- before: verify_page(after int8, upto int8, most int8)
SELECT l.seq, l.place, l.event_id, l.event_at, l.purpose, encode(l.digest, 'hex') AS digest,
       encode(l.hash, 'hex') AS hash,
       1 AS form, e.event_kind, e.subject, e.payload::text AS payload, e.source, e.tags, e.dedupe_key,
       e.correlation_id::text, e.trace_id, e.mission_id::text, NULL::text AS origin, NULL::text AS actor, NULL::text AS target_type,
       NULL::text AS target_id, NULL::text AS command_id, NULL::text AS agent_run_id, NULL::text AS swarm_run_id,
       NULL::text AS step_index, NULL::text AS tool_name, NULL::text AS latency_ms, NULL::text AS token_usage, NULL::text AS cost_units
FROM (SELECT * FROM agentq.event_log WHERE seq > $1 AND seq <= $2 ORDER BY seq FETCH FIRST ($3) ROWS WITH TIES) l
LEFT JOIN LATERAL (SELECT * FROM agentq.event e
                   WHERE e.event_id = l.event_id AND e.purpose = l.purpose AND e.event_at = l.event_at LIMIT 1) e ON true
ORDER BY l.seq, l.purpose

-- name: verify_before(seq int8, chain text)
SELECT place, encode(hash, 'hex') AS hash FROM agentq.event_log
WHERE seq < $1 AND (purpose = 'audit') = ($2 = 'audit') ORDER BY seq DESC LIMIT 1

-- name: verify_find(event_id uuid)
SELECT true FROM agentq.event WHERE event_id = $1 LIMIT 1

-- name: verify_beyond()
SELECT seq, event_id, purpose FROM agentq.event_log
WHERE seq > coalesce((SELECT last_seq FROM agentq_internal.event_seal WHERE one), 0) ORDER BY seq LIMIT 1

-- name: verify_stray(lower timestamptz, upper timestamptz) freely
SELECT e.event_id, e.purpose
FROM agentq.event e
JOIN agentq_internal.event_seal s ON s.one AND s.sealed IS NOT NULL AND NOT s.adopting
WHERE pg_visible_in_snapshot(e.xid, s.sealed)
  AND ($1 IS NULL OR e.event_at >= $1) AND ($2 IS NULL OR e.event_at <= $2)
  AND e.event_at >= (SELECT c.dropped_before FROM agentq.event_chain c
                     WHERE c.chain = CASE e.purpose WHEN 'audit' THEN 'audit' ELSE 'usual' END)
  AND NOT EXISTS (SELECT FROM agentq.event_log l WHERE l.event_id = e.event_id)
ORDER BY e.event_id LIMIT 1
