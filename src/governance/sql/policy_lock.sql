SELECT version, value = $2 FROM agentq.policy WHERE key = $1 FOR UPDATE
