INSERT INTO agentq.reaction (reaction_id, event_id, event_seq, pattern, status, payload, reason, dedupe_key, depth, matrix_version,
    created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11)
ON CONFLICT DO NOTHING
RETURNING reaction_id
