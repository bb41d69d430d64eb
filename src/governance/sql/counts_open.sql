INSERT INTO agentq.proposal_count (day, source, accepted)
SELECT ($1 AT TIME ZONE 'UTC')::date, s, (
    SELECT count(*) FROM agentq.command c
    WHERE c.created_at >= date_trunc('day', $1, 'UTC') AND c.created_at < date_trunc('day', $1, 'UTC') + interval '24 hours'
      AND c.decision <> 'rejected' AND c.command_id <> $3 AND (s = '*' OR c.source = s))
FROM unnest($2) s ORDER BY s
ON CONFLICT (day, source) DO NOTHING
