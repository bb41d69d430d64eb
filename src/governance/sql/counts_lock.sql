SELECT source, accepted FROM agentq.proposal_count
WHERE day = ($1 AT TIME ZONE 'UTC')::date AND source = ANY ($2)
ORDER BY source FOR UPDATE
