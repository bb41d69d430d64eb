INSERT INTO agentq.event_key (dedupe_key, event_id, purpose, event_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (dedupe_key) DO NOTHING RETURNING event_id
