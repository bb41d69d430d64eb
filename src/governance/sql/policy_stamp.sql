SELECT version, updated_at FROM agentq.policy WHERE key = $1
