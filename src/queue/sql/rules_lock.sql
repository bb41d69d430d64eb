SELECT limit_key FROM agentq.limit_rule ORDER BY limit_key FOR UPDATE
