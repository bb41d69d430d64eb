UPDATE agentq.effect SET status = 'compensated', compensated_at = $2, error = NULL WHERE effect_id = $1
