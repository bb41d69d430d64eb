-- name: cursor_make(consumer text, now timestamptz)
INSERT INTO agentq.event_cursor (consumer, seq, updated_at)
SELECT $1, 0, $2 WHERE NOT EXISTS (SELECT FROM agentq.event_cursor WHERE consumer = $1)
ON CONFLICT (consumer) DO NOTHING RETURNING seq

-- name: cursor_read(consumer text)
SELECT seq FROM agentq.event_cursor WHERE consumer = $1

-- name: cursor_lock(consumer text)
SELECT seq FROM agentq.event_cursor WHERE consumer = $1 FOR UPDATE SKIP LOCKED

-- name: cursor_move(consumer text, passed int8, now timestamptz)
UPDATE agentq.event_cursor SET seq = $2, updated_at = $3 WHERE consumer = $1

-- name: pattern_last(pattern text)
SELECT last_at FROM agentq.reaction_pattern WHERE pattern = $1

-- name: pattern_count(pattern text, last_at timestamptz, queued int8, unlucky int8, cooling int8, duplicates int8,
--   too_deep int8, failed int8)
INSERT INTO agentq.reaction_pattern AS p (pattern, last_at, queued, unlucky, cooling, duplicates, too_deep, failed)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (pattern) DO UPDATE
SET last_at = excluded.last_at, queued = p.queued + excluded.queued, unlucky = p.unlucky + excluded.unlucky,
    cooling = p.cooling + excluded.cooling, duplicates = p.duplicates + excluded.duplicates,
    too_deep = p.too_deep + excluded.too_deep, failed = p.failed + excluded.failed

-- name: command_depth(mission uuid)
-- A mission within a step is as deep as the one around it, and a fork as the one that it was made from.
WITH RECURSIVE up AS (
    SELECT m.mission_id, m.parent_step_id, m.forked_from FROM agentq.mission m WHERE m.mission_id = $1
    UNION
    SELECT m.mission_id, m.parent_step_id, m.forked_from
    FROM up
    CROSS JOIN LATERAL (
        SELECT s.mission_id FROM agentq_internal.mission_step s WHERE s.step_id = up.parent_step_id
        UNION ALL SELECT up.forked_from
    ) around
    JOIN agentq.mission m ON m.mission_id = around.mission_id
)
SELECT max(c.depth) FROM up JOIN agentq.command c ON c.mission_id = up.mission_id

-- name: commands_end(missions uuid[], now timestamptz)
-- One that somebody has locked is left.
WITH free AS MATERIALIZED (
    SELECT c.command_id, m.status
    FROM agentq.mission m JOIN agentq.command c ON c.mission_id = m.mission_id
    WHERE m.mission_id = ANY ($1) AND m.status IN ('succeeded', 'failed', 'cancelled') AND c.finished_at IS NULL
    FOR UPDATE OF c SKIP LOCKED
)
UPDATE agentq.command c SET state = free.status, finished_at = $2, updated_at = $2
FROM free WHERE c.command_id = free.command_id

-- name: commands_open(after uuid, batch int8)
-- Commands whose mission may have ended meanwhile, from one mission on.
SELECT c.mission_id
FROM agentq.command c
WHERE c.mission_id IS NOT NULL AND c.mission_id > $1 AND c.finished_at IS NULL
ORDER BY c.mission_id LIMIT $2

-- name: compensation_mission(job uuid)
SELECT mission_id FROM agentq_internal.effect WHERE compensation_job_id = $1 AND mission_id IS NOT NULL LIMIT 1

-- name: reaction_make(reaction_id uuid, event_id uuid, event_seq int8, pattern text, status text, payload jsonb,
--   reason text, dedupe_key text, depth int4, matrix_version int4, now timestamptz)
INSERT INTO agentq.reaction (reaction_id, event_id, event_seq, pattern, status, payload, reason, dedupe_key, depth, matrix_version,
    created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11)
ON CONFLICT DO NOTHING
RETURNING reaction_id
