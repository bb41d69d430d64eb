SELECT place, encode(hash, 'hex') FROM agentq.event_log
WHERE seq < $1 AND (purpose = 'audit') = ($2 = 'audit') ORDER BY seq DESC LIMIT 1
