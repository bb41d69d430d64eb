-- name: read(after int8, most int8, kinds text[], purposes text[], subject text, mission uuid, page int8)
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
          AND ($3 IS NULL OR e.event_kind = ANY ($3)) AND ($5 IS NULL OR e.subject = $5) AND ($6 IS NULL OR e.mission_id = $6)
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
