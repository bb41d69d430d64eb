DELETE FROM agentq.effect_chain WHERE chain_id = $1
