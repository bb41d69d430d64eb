-- name: counts_lock(at timestamptz, names text[])
SELECT source, accepted FROM agentq_internal.proposal_count
WHERE day = ($1 AT TIME ZONE 'UTC')::date AND source = ANY ($2)
ORDER BY source FOR UPDATE

-- name: counts_open(at timestamptz, names text[], id uuid)
INSERT INTO agentq_internal.proposal_count (day, source, accepted)
SELECT ($1 AT TIME ZONE 'UTC')::date, s, (
    SELECT count(*) FROM agentq.command c
    WHERE c.created_at >= date_trunc('day', $1, 'UTC') AND c.created_at < date_trunc('day', $1, 'UTC') + interval '24 hours'
      AND c.decision <> 'rejected' AND c.command_id <> $3 AND (s = '*' OR c.source = s))
FROM unnest($2) s ORDER BY s
ON CONFLICT (day, source) DO NOTHING

-- name: counts_add(at timestamptz, names text[])
UPDATE agentq_internal.proposal_count SET accepted = accepted + 1
WHERE day = ($1 AT TIME ZONE 'UTC')::date AND source = ANY ($2)

-- name: counts_read(now timestamptz, names text[])
SELECT s AS source, coalesce(
    (SELECT accepted FROM agentq_internal.proposal_count WHERE day = ($1 AT TIME ZONE 'UTC')::date AND source = s),
    (SELECT count(*) FROM agentq.command c
     WHERE c.created_at >= date_trunc('day', $1, 'UTC') AND c.created_at < date_trunc('day', $1, 'UTC') + interval '24 hours'
       AND c.decision <> 'rejected' AND (s = '*' OR c.source = s))) AS accepted
FROM unnest($2) s
