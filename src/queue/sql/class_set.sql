WITH changed AS (
    UPDATE agentq.error_class
    SET retryable = $2, aliases = coalesce($4, aliases), description = coalesce($3, description), updated_at = $5
    WHERE error_class = $1
    RETURNING *
), added AS (
    INSERT INTO agentq.error_class (error_class, retryable, aliases, description, updated_at)
    SELECT $1, $2, coalesce($4, '{}'), $3, $5 WHERE NOT EXISTS (SELECT FROM changed)
    RETURNING *
)
SELECT jsonb_build_object('ok', true, 'code', CASE WHEN EXISTS (SELECT FROM added) THEN 'created' ELSE 'updated' END)
    || to_jsonb(c) - ARRAY['updated_at', 'built_in']
FROM (SELECT * FROM changed UNION ALL SELECT * FROM added) c
