DELETE FROM agentq.error_class WHERE error_class = $1 AND NOT built_in RETURNING 1
