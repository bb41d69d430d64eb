DELETE FROM agentq.limit_rule WHERE limit_key = $1 RETURNING 1
