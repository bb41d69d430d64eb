SELECT limit_key FROM agentq.limit_rule WHERE limit_key = ANY ($1) ORDER BY limit_key FOR UPDATE
