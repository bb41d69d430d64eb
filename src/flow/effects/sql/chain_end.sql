UPDATE agentq.effect_chain c
SET status = $2, error = $3, ended_at = $4
WHERE chain_id = $1
RETURNING jsonb_build_object('chain_id', c.chain_id, 'mission_id', c.mission_id, 'job_id', c.job_id, 'effects', c.effects,
    'compensated', c.compensated, 'unknown', c.unknown, 'irreversible', c.irreversible), c.mission_id
