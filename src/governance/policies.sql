-- name: policy_get(key text)
SELECT value, version, updated_at, updated_by,
       jsonb_build_object('ok', true, 'code', 'found', 'key', key, 'version', version, 'value', value,
           'updated_at', updated_at, 'updated_by', updated_by) AS answer
FROM agentq.policy WHERE key = $1

-- name: policy_version(key text, version int4)
SELECT value, version, set_at, set_by,
       jsonb_build_object('ok', true, 'code', 'found', 'key', key, 'version', version, 'value', value,
           'updated_at', set_at, 'updated_by', set_by, 'reason', reason) AS answer
FROM agentq.policy_version WHERE key = $1 AND version = $2

-- name: policy_stamp(key text)
SELECT version, updated_at FROM agentq.policy WHERE key = $1

-- name: policy_lock(key text, stored jsonb)
SELECT version, value = $2 AS is_same FROM agentq.policy WHERE key = $1 FOR UPDATE

-- name: policy_set(key text, stored jsonb, reason text, now timestamptz, by text)
WITH changed AS (
    INSERT INTO agentq.policy AS p (key, value, version, updated_at, updated_by) VALUES ($1, $2, 1, $4, $5)
    ON CONFLICT (key) DO UPDATE
    SET value = excluded.value, version = p.version + 1, updated_at = excluded.updated_at, updated_by = excluded.updated_by
    RETURNING key, value, version, updated_at, updated_by
)
INSERT INTO agentq.policy_version (key, version, value, reason, set_at, set_by)
SELECT key, version, value, $3, updated_at, updated_by FROM changed
RETURNING version

-- name: policy_history(key text, most int4)
SELECT jsonb_build_object('ok', true, 'code', 'found', 'key', $1, 'versions', jsonb_agg(jsonb_build_object(
           'version', version, 'value', value, 'reason', reason, 'set_at', set_at, 'set_by', set_by) ORDER BY version DESC))
FROM (SELECT * FROM agentq.policy_version WHERE key = $1 ORDER BY version DESC LIMIT $2) v
HAVING count(*) > 0

-- name: counts_forget(now timestamptz)
DELETE FROM agentq_internal.proposal_count WHERE day >= ($1 AT TIME ZONE 'UTC')::date
