SELECT seq, event_id, purpose FROM agentq.event_log
WHERE seq > coalesce((SELECT last_seq FROM agentq.event_seal WHERE one), 0) ORDER BY seq LIMIT 1
