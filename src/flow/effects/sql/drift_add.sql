INSERT INTO agentq.effect_drift (job_id, effect_type, drift, about, declared_by, compensates, mission_id, manifest_version, found_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (job_id, effect_type, drift) DO NOTHING
RETURNING job_id
