SELECT mission_id FROM agentq.mission WHERE idempotency_key = $1
