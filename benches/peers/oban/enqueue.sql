INSERT INTO oban_jobs (args, attempt, errors, max_attempts, meta, priority, queue, state, tags, worker)
VALUES (:payload::jsonb, 0, '{}', 20, '{}', 0, 'default', 'available', '{}', 'k')
ON CONFLICT DO NOTHING
RETURNING id;
