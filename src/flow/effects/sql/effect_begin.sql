UPDATE agentq.effect
SET status = 'executing', lease_token = $2, begun = begun + 1, begun_at = $3
WHERE effect_id = $1
RETURNING begun
