DELETE FROM agentq.budget WHERE limit_key = $1 AND unit = $2 AND period = $3 RETURNING limit_key
