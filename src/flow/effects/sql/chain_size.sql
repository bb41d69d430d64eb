UPDATE agentq.effect_chain SET effects = $2, unknown = $3, irreversible = $4 WHERE chain_id = $1
