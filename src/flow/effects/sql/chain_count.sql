UPDATE agentq.effect_chain SET compensated = compensated + 1 WHERE chain_id = $1
