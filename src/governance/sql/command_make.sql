INSERT INTO agentq.command (command_id, dedupe_key, source, title, risk_level, template, reason, policy_snapshot, requested_by,
    reaction_id, depth, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12)
ON CONFLICT (dedupe_key) DO NOTHING
RETURNING command_id
