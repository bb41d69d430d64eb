SELECT chain_id FROM agentq.effect_chain WHERE mission_id = $1 AND status = 'running'
UNION ALL
SELECT chain_id FROM agentq.effect_chain WHERE job_id = $2 AND status = 'running'
