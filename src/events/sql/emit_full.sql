INSERT INTO agentq.event (event_id, event_at, event_kind, subject, payload, purpose, source, tags, dedupe_key, correlation_id, trace_id,
    mission_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
