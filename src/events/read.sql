-- name: read(after int8, most int8, kinds text[], purposes text[], subject text, mission uuid, page int8, tags text[],
--   source text, origin text)
WITH page AS MATERIALIZED (
    SELECT seq, event_id, event_at, purpose FROM agentq.event_log WHERE seq > $1 ORDER BY seq LIMIT $7
), found AS (
    SELECT p.seq, e.document
    FROM page p
    CROSS JOIN LATERAL (
        SELECT jsonb_build_object('seq', p.seq, 'event_id', e.event_id, 'event_at', e.event_at, 'purpose', e.purpose,
                   'event_kind', e.event_kind, 'subject', e.subject, 'payload', e.payload, 'source', e.source, 'tags', e.tags,
                   'dedupe_key', e.dedupe_key, 'correlation_id', e.correlation_id, 'trace_id', e.trace_id,
                   'mission_id', e.mission_id, 'origin', e.origin, 'actor', e.actor)
               || jsonb_strip_nulls(jsonb_build_object('target_type', e.target_type, 'target_id', e.target_id,
                   'command_id', e.command_id, 'agent_run_id', e.agent_run_id, 'swarm_run_id', e.swarm_run_id,
                   'step_index', e.step_index, 'tool_name', e.tool_name, 'latency_ms', e.latency_ms,
                   'token_usage', e.token_usage, 'cost_units', e.cost_units)) AS document
        FROM agentq.event e
        WHERE e.event_id = p.event_id AND e.purpose = p.purpose AND e.event_at = p.event_at
          AND ($3 IS NULL OR e.event_kind LIKE ANY ($3)) AND ($5 IS NULL OR e.subject = $5) AND ($6 IS NULL OR e.mission_id = $6)
          AND ($8 IS NULL OR e.tags && $8) AND ($9 IS NULL OR e.source = $9) AND ($10 IS NULL OR e.origin = $10)
        LIMIT 1) e
    WHERE $4 IS NULL OR p.purpose = ANY ($4)
    ORDER BY p.seq LIMIT $2
)
SELECT count(*) AS found, (SELECT max(seq) FROM page) AS seen,
       jsonb_build_object('ok', true, 'code', CASE count(*) WHEN 0 THEN 'empty' ELSE 'events' END, 'count', count(*),
           'events', coalesce(jsonb_agg(document ORDER BY seq), '[]'),
           'next_after', CASE WHEN count(*) >= $2 THEN max(seq) ELSE coalesce((SELECT max(seq) FROM page), $1) END,
           'last_seq', coalesce((SELECT last_seq FROM agentq_internal.event_seal WHERE one), 0)) AS answer
FROM found

-- before: read(after int8, most int8, kinds text[], purposes text[], subject text, mission uuid, page int8, tags text[],
--   source text, origin text)
WITH page AS MATERIALIZED (
    SELECT seq, event_id, event_at, purpose FROM agentq.event_log WHERE seq > $1 ORDER BY seq LIMIT $7
), found AS (
    SELECT p.seq, e.document
    FROM page p
    CROSS JOIN LATERAL (
        SELECT jsonb_build_object('seq', p.seq, 'event_id', e.event_id, 'event_at', e.event_at, 'purpose', e.purpose,
                   'event_kind', e.event_kind, 'subject', e.subject, 'payload', e.payload, 'source', e.source, 'tags', e.tags,
                   'dedupe_key', e.dedupe_key, 'correlation_id', e.correlation_id, 'trace_id', e.trace_id,
                   'mission_id', e.mission_id) AS document
        FROM agentq.event e
        WHERE e.event_id = p.event_id AND e.purpose = p.purpose AND e.event_at = p.event_at
          AND ($3 IS NULL OR e.event_kind LIKE ANY ($3)) AND ($5 IS NULL OR e.subject = $5) AND ($6 IS NULL OR e.mission_id = $6)
          AND ($8 IS NULL OR e.tags && $8) AND ($9 IS NULL OR e.source = $9) AND $10 IS NULL
        LIMIT 1) e
    WHERE $4 IS NULL OR p.purpose = ANY ($4)
    ORDER BY p.seq LIMIT $2
)
SELECT count(*) AS found, (SELECT max(seq) FROM page) AS seen,
       jsonb_build_object('ok', true, 'code', CASE count(*) WHEN 0 THEN 'empty' ELSE 'events' END, 'count', count(*),
           'events', coalesce(jsonb_agg(document ORDER BY seq), '[]'),
           'next_after', CASE WHEN count(*) >= $2 THEN max(seq) ELSE coalesce((SELECT max(seq) FROM page), $1) END,
           'last_seq', coalesce((SELECT last_seq FROM agentq_internal.event_seal WHERE one), 0)) AS answer
FROM found

-- name: read_of_mission(after int8, most int8, kinds text[], purposes text[], subject text, mission uuid, page int8, tags text[],
--   source text, origin text)
-- The events of one mission are found by its index, and then their places: nothing else is looked through. What is beyond the
-- last place is not looked for, so that the reader knows how far it has come.
WITH reach AS MATERIALIZED (
    SELECT last_seq FROM agentq_internal.event_seal WHERE one
), of_mission AS MATERIALIZED (
    SELECT l.seq, l.event_id, l.event_at, l.purpose
    FROM agentq.event e
    CROSS JOIN LATERAL (SELECT o.seq, o.event_id, o.event_at, o.purpose FROM agentq.event_log o
                        WHERE o.event_id = e.event_id AND o.purpose = e.purpose OFFSET 0) l
    WHERE e.mission_id = $6 AND l.seq > $1 AND l.seq <= (SELECT last_seq FROM reach)
), page AS (
    SELECT greatest($1, (SELECT last_seq FROM reach)) AS seq
), found AS (
    SELECT p.seq, e.document
    FROM of_mission p
    CROSS JOIN LATERAL (
        SELECT jsonb_build_object('seq', p.seq, 'event_id', e.event_id, 'event_at', e.event_at, 'purpose', e.purpose,
                   'event_kind', e.event_kind, 'subject', e.subject, 'payload', e.payload, 'source', e.source, 'tags', e.tags,
                   'dedupe_key', e.dedupe_key, 'correlation_id', e.correlation_id, 'trace_id', e.trace_id,
                   'mission_id', e.mission_id, 'origin', e.origin, 'actor', e.actor)
               || jsonb_strip_nulls(jsonb_build_object('target_type', e.target_type, 'target_id', e.target_id,
                   'command_id', e.command_id, 'agent_run_id', e.agent_run_id, 'swarm_run_id', e.swarm_run_id,
                   'step_index', e.step_index, 'tool_name', e.tool_name, 'latency_ms', e.latency_ms,
                   'token_usage', e.token_usage, 'cost_units', e.cost_units)) AS document
        FROM agentq.event e
        WHERE e.event_id = p.event_id AND e.purpose = p.purpose AND e.event_at = p.event_at
          AND ($3 IS NULL OR e.event_kind LIKE ANY ($3)) AND ($5 IS NULL OR e.subject = $5)
          AND ($8 IS NULL OR e.tags && $8) AND ($9 IS NULL OR e.source = $9) AND ($10 IS NULL OR e.origin = $10)
        LIMIT 1) e
    WHERE ($4 IS NULL OR p.purpose = ANY ($4)) AND $7 IS NOT NULL
    ORDER BY p.seq LIMIT $2
)
SELECT count(*) AS found, (SELECT max(seq) FROM page) AS seen,
       jsonb_build_object('ok', true, 'code', CASE count(*) WHEN 0 THEN 'empty' ELSE 'events' END, 'count', count(*),
           'events', coalesce(jsonb_agg(document ORDER BY seq), '[]'),
           'next_after', CASE WHEN count(*) >= $2 THEN max(seq) ELSE coalesce((SELECT max(seq) FROM page), $1) END,
           'last_seq', coalesce((SELECT last_seq FROM agentq_internal.event_seal WHERE one), 0)) AS answer
FROM found

-- before: read_of_mission(after int8, most int8, kinds text[], purposes text[], subject text, mission uuid, page int8, tags text[],
--   source text, origin text)
-- The events of one mission are found by its index, and then their places: nothing else is looked through. What is beyond the
-- last place is not looked for, so that the reader knows how far it has come.
WITH reach AS MATERIALIZED (
    SELECT last_seq FROM agentq_internal.event_seal WHERE one
), of_mission AS MATERIALIZED (
    SELECT l.seq, l.event_id, l.event_at, l.purpose
    FROM agentq.event e
    CROSS JOIN LATERAL (SELECT o.seq, o.event_id, o.event_at, o.purpose FROM agentq.event_log o
                        WHERE o.event_id = e.event_id AND o.purpose = e.purpose OFFSET 0) l
    WHERE e.mission_id = $6 AND l.seq > $1 AND l.seq <= (SELECT last_seq FROM reach)
), page AS (
    SELECT greatest($1, (SELECT last_seq FROM reach)) AS seq
), found AS (
    SELECT p.seq, e.document
    FROM of_mission p
    CROSS JOIN LATERAL (
        SELECT jsonb_build_object('seq', p.seq, 'event_id', e.event_id, 'event_at', e.event_at, 'purpose', e.purpose,
                   'event_kind', e.event_kind, 'subject', e.subject, 'payload', e.payload, 'source', e.source, 'tags', e.tags,
                   'dedupe_key', e.dedupe_key, 'correlation_id', e.correlation_id, 'trace_id', e.trace_id,
                   'mission_id', e.mission_id) AS document
        FROM agentq.event e
        WHERE e.event_id = p.event_id AND e.purpose = p.purpose AND e.event_at = p.event_at
          AND ($3 IS NULL OR e.event_kind LIKE ANY ($3)) AND ($5 IS NULL OR e.subject = $5)
          AND ($8 IS NULL OR e.tags && $8) AND ($9 IS NULL OR e.source = $9) AND $10 IS NULL
        LIMIT 1) e
    WHERE ($4 IS NULL OR p.purpose = ANY ($4)) AND $7 IS NOT NULL
    ORDER BY p.seq LIMIT $2
)
SELECT count(*) AS found, (SELECT max(seq) FROM page) AS seen,
       jsonb_build_object('ok', true, 'code', CASE count(*) WHEN 0 THEN 'empty' ELSE 'events' END, 'count', count(*),
           'events', coalesce(jsonb_agg(document ORDER BY seq), '[]'),
           'next_after', CASE WHEN count(*) >= $2 THEN max(seq) ELSE coalesce((SELECT max(seq) FROM page), $1) END,
           'last_seq', coalesce((SELECT last_seq FROM agentq_internal.event_seal WHERE one), 0)) AS answer
FROM found
