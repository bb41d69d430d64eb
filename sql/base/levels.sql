-- Access levels. A level is a list of privileges, to which each room adds its own in its access.sql;
-- fn_access_grant hands a level to a role. Nothing is for PUBLIC.
CREATE TABLE agentq.access_rule (
    level     text NOT NULL,
    privilege text NOT NULL,
    object    name NOT NULL,
    CONSTRAINT access_rule_pkey PRIMARY KEY (level, privilege, object),
    CONSTRAINT access_rule_level_check CHECK (level IN ('producer', 'proposer', 'worker', 'operator', 'reader', 'delegate')),
    CONSTRAINT access_rule_privilege_check CHECK (privilege IN ('EXECUTE', 'SELECT', 'INSERT', 'UPDATE', 'DELETE'))
);
COMMENT ON TABLE agentq.access_rule IS 'What each access level may do.';
COMMENT ON COLUMN agentq.access_rule.level IS 'producer, proposer, worker, operator, reader or delegate.';
COMMENT ON COLUMN agentq.access_rule.privilege IS 'The privilege.';
COMMENT ON COLUMN agentq.access_rule.object IS 'The table, view or function. A level that has a function of agentq_internal needs it for a view, and cannot call it by name.';

-- How a room says who may do what: its access.sql calls this.
CREATE FUNCTION agentq_internal.fn_access_allow(p_privilege text, p_levels text[], p_objects text[]) RETURNS void LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO agentq.access_rule (level, privilege, object)
    SELECT level, p_privilege, object FROM unnest(p_levels) AS level CROSS JOIN unnest(p_objects) AS object
$$;
COMMENT ON FUNCTION agentq_internal.fn_access_allow(text, text[], text[]) IS 'Adds rules: each of these levels has the privilege on each of these objects.';

CREATE TABLE agentq.access_grant (
    role_name  name NOT NULL,
    level      text NOT NULL,
    granted_at timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    granted_by text NOT NULL DEFAULT session_user,
    CONSTRAINT access_grant_pkey PRIMARY KEY (role_name, level),
    CONSTRAINT access_grant_level_check CHECK (level IN ('producer', 'proposer', 'worker', 'operator', 'reader', 'delegate'))
);
COMMENT ON TABLE agentq.access_grant IS 'Which role has been given which level.';
COMMENT ON COLUMN agentq.access_grant.role_name IS 'The role.';
COMMENT ON COLUMN agentq.access_grant.level IS 'Its level.';
COMMENT ON COLUMN agentq.access_grant.granted_at IS 'Since when.';
COMMENT ON COLUMN agentq.access_grant.granted_by IS 'By whom.';

SELECT pg_catalog.pg_extension_config_dump('agentq.access_grant', '');
