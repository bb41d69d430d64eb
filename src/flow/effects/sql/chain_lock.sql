SELECT chain_id FROM agentq.effect_chain WHERE chain_id = $1 AND status = 'running' FOR UPDATE
