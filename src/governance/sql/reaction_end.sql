UPDATE agentq.reaction SET status = $2, reason = $3, command_id = $4, updated_at = $5 WHERE reaction_id = $1
