WITH changed AS (
    INSERT INTO agentq.policy AS p (key, value, version, updated_at, updated_by) VALUES ($1, $2, 1, $4, $5)
    ON CONFLICT (key) DO UPDATE
    SET value = excluded.value, version = p.version + 1, updated_at = excluded.updated_at, updated_by = excluded.updated_by
    RETURNING key, value, version, updated_at, updated_by
)
INSERT INTO agentq.policy_version (key, version, value, reason, set_at, set_by)
SELECT key, version, value, $3, updated_at, updated_by FROM changed
RETURNING version
