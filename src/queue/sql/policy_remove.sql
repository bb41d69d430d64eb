DELETE FROM agentq.retry_policy WHERE scope = $1 AND name = $2 RETURNING 1
