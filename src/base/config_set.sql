WITH before AS (
    SELECT key, value FROM agentq.config WHERE key = $1 FOR UPDATE
)
UPDATE agentq.config c
SET value = $2, updated_at = $3, updated_by = session_user
FROM before b
WHERE c.key = b.key
RETURNING jsonb_build_object('ok', true, 'code', 'set', 'key', c.key, 'value', c.value, 'previous', b.value)
