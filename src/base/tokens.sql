-- name: token_find(hash text, now timestamptz)
SELECT t.token_id, t.role_oid, t.kind, t.scopes, t.expires_at <= $2 AS ended,
       jsonb_build_object('token_id', t.token_id, 'kind', t.kind, 'label', t.label, 'agent', t.agent, 'run_id', t.run_id,
           'scopes', t.scopes, 'expires_at', t.expires_at) AS told,
       t.revoked_at IS NOT NULL OR p.revoked_at IS NOT NULL AS revoked
FROM agentq_internal.access_token t LEFT JOIN agentq_internal.access_token p ON p.token_id = t.issued_with
WHERE t.hash = $1

-- before: token_find(hash text, now timestamptz)
SELECT NULL::uuid AS token_id, NULL::oid AS role_oid, NULL::text AS kind, NULL::text[] AS scopes, true AS ended, '{}'::jsonb AS told,
       true AS revoked
WHERE $1 IS NULL AND $2 IS NULL

-- name: token_state(token_id uuid, now timestamptz, privilege text, object text)
-- Whether a token holds still, and whether its scopes have a privilege.
SELECT t.expires_at <= $2 AS ended, t.revoked_at IS NOT NULL OR p.revoked_at IS NOT NULL AS revoked,
       t.scopes IS NULL OR $4 IS NULL OR EXISTS (
           SELECT FROM agentq.access_rule r WHERE r.level = ANY (t.scopes) AND r.privilege = $3 AND r.object = $4::name) AS in_scope
FROM agentq_internal.access_token t LEFT JOIN agentq_internal.access_token p ON p.token_id = t.issued_with
WHERE t.token_id = $1

-- before: token_state(token_id uuid, now timestamptz, privilege text, object text)
SELECT true AS ended, true AS revoked, false AS in_scope WHERE $1 IS NULL AND $2 IS NULL AND $3 IS NULL AND $4 IS NULL

-- name: token_count(role oid, now timestamptz)
SELECT count(*) FROM agentq_internal.access_token WHERE role_oid = $1 AND expires_at > $2 AND revoked_at IS NULL

-- before: token_count(role oid, now timestamptz)
SELECT count(*) FROM agentq.config WHERE $1 IS NULL AND $2 IS NULL

-- name: token_insert(token_id uuid, hash text, role oid, kind text, label text, agent text, run_id text, scopes text[], now timestamptz,
--   by text, issued_with uuid, seconds int4)
INSERT INTO agentq_internal.access_token
    (token_id, hash, role_oid, kind, label, agent, run_id, scopes, issued_at, issued_by, issued_with, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $9 + make_interval(secs => $12))
RETURNING jsonb_build_object('ok', true, 'code', 'issued', 'token_id', token_id, 'kind', kind, 'role', role_oid::regrole::text,
    'label', label, 'agent', agent, 'run_id', run_id, 'scopes', scopes, 'expires_at', expires_at)

-- before: token_insert(token_id uuid, hash text, role oid, kind text, label text, agent text, run_id text, scopes text[],
--   now timestamptz, by text, issued_with uuid, seconds int4)
SELECT '{}'::jsonb WHERE ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) IS NULL

-- name: token_revoke(token_id uuid, role oid, all_of_them bool, now timestamptz, by text, reason text)
WITH known AS (
    SELECT token_id, revoked_at FROM agentq_internal.access_token WHERE token_id = $1 AND (role_oid = $2 OR $3) FOR UPDATE
), revoked AS (
    UPDATE agentq_internal.access_token t SET revoked_at = $4, revoked_by = $5, revoke_reason = $6
    FROM known k WHERE t.token_id = k.token_id AND k.revoked_at IS NULL
    RETURNING t.token_id
)
SELECT EXISTS (SELECT FROM known) AS is_known, EXISTS (SELECT FROM revoked) AS is_revoked

-- before: token_revoke(token_id uuid, role oid, all_of_them bool, now timestamptz, by text, reason text)
SELECT false AS is_known, false AS is_revoked WHERE ($1, $2, $3, $4, $5, $6) IS NULL

-- name: tokens_list(role oid, all_of_them bool, ended bool, now timestamptz, after uuid, most int8)
-- The newest first: ids are time-ordered.
SELECT coalesce(jsonb_agg(jsonb_build_object('token_id', token_id, 'kind', kind, 'role', role_name, 'label', label, 'agent', agent,
           'run_id', run_id, 'scopes', scopes, 'issued_at', issued_at, 'issued_by', issued_by, 'issued_with', issued_with,
           'expires_at', expires_at, 'revoked_at', revoked_at, 'revoked_by', revoked_by, 'revoke_reason', revoke_reason)
       ORDER BY token_id DESC), '[]')
FROM (
    SELECT t.*, r.rolname AS role_name
    FROM agentq_internal.access_token t LEFT JOIN pg_catalog.pg_roles r ON r.oid = t.role_oid
    WHERE (t.role_oid = $1 OR $2) AND ($3 OR t.expires_at > $4 AND t.revoked_at IS NULL) AND ($5 IS NULL OR t.token_id < $5)
    ORDER BY t.token_id DESC LIMIT $6) AS page

-- before: tokens_list(role oid, all_of_them bool, ended bool, now timestamptz, after uuid, most int8)
SELECT '[]'::jsonb WHERE $1 IS NOT NULL AND $2 IS NOT NULL AND $3 IS NOT NULL AND $4 IS NOT NULL AND $5 IS NULL AND $6 IS NOT NULL

-- name: levels_of(role oid)
SELECT coalesce(jsonb_agg(DISTINCT g.level ORDER BY g.level), '[]')
FROM agentq.access_grant g JOIN pg_catalog.pg_roles r ON r.rolname = g.role_name
WHERE pg_has_role($1, r.oid, 'USAGE')

-- name: tokens_forget(now timestamptz, most int8)
-- A token is known for 30 days after its end, so that people see what it was.
WITH over AS (
    SELECT token_id FROM agentq_internal.access_token WHERE expires_at <= $1 - interval '30 days'
    ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM agentq_internal.access_token t USING over o WHERE t.token_id = o.token_id RETURNING 1
)
SELECT count(*) FROM gone

-- before: tokens_forget(now timestamptz, most int8)
SELECT 0::bigint WHERE $1 IS NOT NULL AND $2 IS NOT NULL
