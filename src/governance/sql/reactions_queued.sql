SELECT reaction_id, event_id, pattern, payload, dedupe_key, depth, matrix_version
FROM agentq.reaction WHERE status = 'queued'
ORDER BY created_at, reaction_id LIMIT $1 FOR UPDATE SKIP LOCKED
