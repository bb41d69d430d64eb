INSERT INTO agentq.limit_rule (limit_key, description, created_at, updated_at)
VALUES ($1, 'made by fn_limit_report', $2, $2)
ON CONFLICT (limit_key) DO NOTHING
