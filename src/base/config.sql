-- name: config_set(name text, value jsonb, now timestamptz, description text, by text)
WITH before AS (
    SELECT value FROM agentq.config WHERE key = $1 FOR UPDATE
), changed AS (
    UPDATE agentq.config SET value = $2, updated_at = $3, updated_by = $5 WHERE key = $1 AND value <> $2
), added AS (
    INSERT INTO agentq.config (key, value, description, updated_at, updated_by)
    SELECT $1, $2, $4, $3, $5 WHERE NOT EXISTS (SELECT FROM before)
)
SELECT jsonb_build_object('ok', true, 'code', 'set', 'key', $1, 'value', $2, 'previous', (SELECT value FROM before))
