INSERT INTO agentq.event (event_id, event_at, event_kind, subject, payload) VALUES ($1, $2, $3, $4, $5)
