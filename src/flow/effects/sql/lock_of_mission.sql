SELECT effect_id FROM agentq.effect WHERE mission_id = $1 AND compensates IS NULL ORDER BY seq FOR UPDATE
