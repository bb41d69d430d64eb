SELECT limit_key FROM agentq.budget ORDER BY limit_key, unit, period FOR UPDATE
