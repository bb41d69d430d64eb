INSERT INTO agentq.limit_rule AS r (limit_key, max_concurrent, max_pending, description, created_at, updated_at)
VALUES ($1, ($2->>'max_concurrent')::integer, ($2->>'max_pending')::integer, $2->>'description', $3, $3)
ON CONFLICT (limit_key) DO UPDATE
SET max_concurrent = CASE WHEN $2 ? 'max_concurrent' THEN excluded.max_concurrent ELSE r.max_concurrent END,
    max_pending = CASE WHEN $2 ? 'max_pending' THEN excluded.max_pending ELSE r.max_pending END,
    description = CASE WHEN $2 ? 'description' THEN excluded.description ELSE r.description END,
    updated_at = excluded.updated_at
RETURNING jsonb_build_object('ok', true, 'code', CASE WHEN r.xmax = 0 THEN 'created' ELSE 'updated' END,
    'key', r.limit_key, 'max_concurrent', r.max_concurrent, 'max_pending', r.max_pending, 'description', r.description)
