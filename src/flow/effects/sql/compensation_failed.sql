UPDATE agentq.effect SET status = 'compensation_failed', error = $2 WHERE effect_id = $1
