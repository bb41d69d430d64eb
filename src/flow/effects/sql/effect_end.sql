UPDATE agentq.effect
SET status = $2, result = $3, error = $4, ended_at = $5
WHERE effect_id = $1
