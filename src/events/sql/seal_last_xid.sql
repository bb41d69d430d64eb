SELECT xid::text FROM agentq.event ORDER BY xid DESC LIMIT 1
