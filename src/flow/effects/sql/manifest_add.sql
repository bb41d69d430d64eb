INSERT INTO agentq.effect_manifest (version, manifest_id, manifest, note, set_at, set_by)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (version) DO NOTHING
RETURNING version
