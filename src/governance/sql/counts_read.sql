SELECT s, coalesce(
    (SELECT accepted FROM agentq.proposal_count WHERE day = ($1 AT TIME ZONE 'UTC')::date AND source = s),
    (SELECT count(*) FROM agentq.command c
     WHERE c.created_at >= date_trunc('day', $1, 'UTC') AND c.created_at < date_trunc('day', $1, 'UTC') + interval '24 hours'
       AND c.decision <> 'rejected' AND (s = '*' OR c.source = s)))
FROM unnest($2) s
