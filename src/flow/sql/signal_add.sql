INSERT INTO agentq.signal (signal_id, name, key, payload, dedupe_key, sent_at, sent_by, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $6 + make_interval(secs => $8))
RETURNING expires_at
