INSERT INTO agentq.effect_chain (chain_id, mission_id, job_id, effects, reason, started_by, started_at)
VALUES ($1, $2, $3, 0, $4, $5, $6)
ON CONFLICT DO NOTHING
RETURNING chain_id
