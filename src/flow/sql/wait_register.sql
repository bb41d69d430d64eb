INSERT INTO agentq.signal_wait AS w (job_id, name, key, step, occurrence, registered_at)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (job_id) DO UPDATE
SET name = excluded.name, key = excluded.key, step = excluded.step, occurrence = excluded.occurrence,
    registered_at = CASE WHEN (w.name, w.key) = (excluded.name, excluded.key) THEN w.registered_at ELSE excluded.registered_at END
