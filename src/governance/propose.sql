-- name: reactions_queued(batch int8, left_alone uuid[])
SELECT reaction_id, event_id, pattern, payload, dedupe_key, depth, matrix_version
FROM agentq.reaction WHERE status = 'queued' AND reaction_id <> ALL ($2)
ORDER BY created_at, reaction_id LIMIT $1 FOR UPDATE SKIP LOCKED

-- name: reaction_end(id uuid, status text, reason text, command uuid, now timestamptz)
UPDATE agentq.reaction SET status = $2, reason = $3, command_id = $4, updated_at = $5 WHERE reaction_id = $1
