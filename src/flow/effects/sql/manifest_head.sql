SELECT manifest_id FROM agentq.effect_manifest ORDER BY version DESC LIMIT 1
