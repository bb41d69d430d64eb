DELETE FROM agentq.proposal_count WHERE day >= ($1 AT TIME ZONE 'UTC')::date
