-- name: seal_lock()
SELECT last_seq, sealed::text, target::text, adopting, at_xid::text, at_event, foreign_to::text, origin, updated_at
FROM agentq_internal.event_seal WHERE one FOR UPDATE SKIP LOCKED

-- name: seal_any(origin text)
SELECT s.sealed IS NULL OR s.target IS NOT NULL OR s.origin <> $1
       OR pg_snapshot_xmax(s.sealed) > pg_snapshot_xmax(pg_current_snapshot())
       OR (SELECT true FROM agentq.event e WHERE e.xid >= pg_snapshot_xmax(s.sealed) LIMIT 1) IS TRUE
       OR (SELECT true FROM pg_snapshot_xip(s.sealed) x
           WHERE (SELECT true FROM agentq.event e WHERE e.xid = x LIMIT 1) LIMIT 1) IS TRUE
FROM agentq_internal.event_seal s WHERE s.one

-- name: seal_begin()
INSERT INTO agentq_internal.event_seal (one) SELECT true WHERE NOT EXISTS (SELECT FROM agentq_internal.event_seal) ON CONFLICT (one) DO NOTHING

-- name: seal_snapshot()
SELECT pg_current_snapshot()::text AS snapshot, pg_current_xact_id()::text AS me

-- name: seal_writers(ended text[])
SELECT x FROM unnest($1) AS x WHERE (SELECT true FROM agentq.event e WHERE e.xid = x::xid8 LIMIT 1) ORDER BY x::xid8

-- name: seal_next(from_xid text, to_xid text, at_xid text, at_event uuid, seen text, foreign text, left int8)
SELECT e.xid::text, e.event_id, e.event_at, e.purpose, e.event_kind, e.subject, e.payload::text, e.source, e.tags, e.dedupe_key,
       e.correlation_id, e.trace_id, e.mission_id::text, e.origin, e.actor, e.target_type, e.target_id, e.command_id::text,
       e.agent_run_id::text, e.swarm_run_id::text, e.step_index::text, e.tool_name, e.latency_ms::text, e.token_usage::text,
       e.cost_units::text
FROM agentq.event e
WHERE e.xid >= $1::xid8 AND e.xid < $2::xid8 AND (e.xid, e.event_id) > ($3::xid8, $4)
  AND pg_visible_in_snapshot(e.xid, $5::pg_snapshot)
  -- Counted, so that it is never made into a hash over the whole log.
  AND (e.xid > $6::xid8
       OR (SELECT count(*) FROM (SELECT FROM agentq.event_log l WHERE l.event_id = e.event_id LIMIT 1) placed) = 0)
ORDER BY e.xid, e.event_id LIMIT $7

-- before: seal_next(from_xid text, to_xid text, at_xid text, at_event uuid, seen text, foreign text, left int8)
SELECT e.xid::text, e.event_id, e.event_at, e.purpose, e.event_kind, e.subject, e.payload::text, e.source, e.tags, e.dedupe_key,
       e.correlation_id::text, e.trace_id, e.mission_id::text, NULL::text AS origin, NULL::text AS actor, NULL::text AS target_type,
       NULL::text AS target_id, NULL::text AS command_id, NULL::text AS agent_run_id, NULL::text AS swarm_run_id,
       NULL::text AS step_index, NULL::text AS tool_name, NULL::text AS latency_ms, NULL::text AS token_usage, NULL::text AS cost_units
FROM agentq.event e
WHERE e.xid >= $1::xid8 AND e.xid < $2::xid8 AND (e.xid, e.event_id) > ($3::xid8, $4)
  AND pg_visible_in_snapshot(e.xid, $5::pg_snapshot)
  -- Counted, so that it is never made into a hash over the whole log.
  AND (e.xid > $6::xid8
       OR (SELECT count(*) FROM (SELECT FROM agentq.event_log l WHERE l.event_id = e.event_id LIMIT 1) placed) = 0)
ORDER BY e.xid, e.event_id LIMIT $7

-- name: seal_last_xid()
-- By the number, and not by the text that it is shown as.
SELECT e.xid::text FROM agentq.event e ORDER BY e.xid DESC LIMIT 1

-- name: seal_places(seqs int8[], purposes text[], places int8[], ids uuid[], times timestamptz[], digests text[],
--   hashes text[], form int4)
INSERT INTO agentq.event_log (seq, purpose, place, event_id, event_at, digest, hash, form)
SELECT seq, purpose, place, event_id, event_at, decode(digest, 'hex'), decode(hash, 'hex'), $8
FROM unnest($1, $2, $3, $4, $5, $6, $7) AS t(seq, purpose, place, event_id, event_at, digest, hash)

-- before: seal_places(seqs int8[], purposes text[], places int8[], ids uuid[], times timestamptz[], digests text[],
--   hashes text[], form int4)
INSERT INTO agentq.event_log (seq, purpose, place, event_id, event_at, digest, hash)
SELECT seq, purpose, place, event_id, event_at, decode(digest, 'hex'), decode(hash, 'hex')
FROM unnest($1, $2, $3, $4, $5, $6, $7) AS t(seq, purpose, place, event_id, event_at, digest, hash)
WHERE $8 IS NOT NULL

-- name: seal_save(last_seq int8, sealed text, target text, adopting bool, at_xid text, at_event uuid,
--   foreign_to text, origin text, now timestamptz)
UPDATE agentq_internal.event_seal
SET last_seq = $1, sealed = $2::pg_snapshot, target = $3::pg_snapshot, adopting = $4, at_xid = $5::xid8, at_event = $6,
    foreign_to = $7::xid8, origin = $8, updated_at = $9
WHERE one

-- name: chain(chain text)
SELECT last_seq, last_place, encode(last_hash, 'hex') AS last_hash, first_place,
       encode(first_hash, 'hex') AS first_hash, dropped_before
FROM agentq.event_chain WHERE chain = $1

-- name: chain_save(chain text, last_seq int8, last_place int8, hash text)
INSERT INTO agentq.event_chain (chain, last_seq, last_place, last_hash) VALUES ($1, $2, $3, decode($4, 'hex'))
ON CONFLICT (chain) DO UPDATE SET last_seq = excluded.last_seq, last_place = excluded.last_place, last_hash = excluded.last_hash

-- name: log_add(chain text, last_seq int8, events int8)
SELECT agentq_internal.fn_event_log_add($1, $2, $3)
