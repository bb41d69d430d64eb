SELECT true FROM agentq.event WHERE event_id = $1 LIMIT 1
