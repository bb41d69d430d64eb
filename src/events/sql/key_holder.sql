SELECT event_id FROM agentq.event_key WHERE dedupe_key = $1
