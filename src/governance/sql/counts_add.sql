UPDATE agentq.proposal_count SET accepted = accepted + 1
WHERE day = ($1 AT TIME ZONE 'UTC')::date AND source = ANY ($2)
