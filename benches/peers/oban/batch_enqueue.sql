-- The client sends the ten values of each of the hundred jobs as parameters; here they are made from
-- the payloads, which is less work.
INSERT INTO oban_jobs (args, attempt, errors, max_attempts, meta, priority, queue, state, tags, worker)
SELECT args, 0, '{}', 20, '{}', 0, 'default', 'available', '{}', 'k'
FROM jsonb_array_elements(:payloads::jsonb) args
ON CONFLICT DO NOTHING
RETURNING *;
