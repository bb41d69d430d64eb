SELECT last_at FROM agentq.reaction_pattern WHERE pattern = $1
