-- Access levels. A level is a list of privileges, to which each room adds its own in its access.sql;
-- fn_access_grant hands a level to a role. Nothing is for PUBLIC.
CREATE TABLE agentq.access_rule (
    level     text NOT NULL,
    privilege text NOT NULL,
    object    name NOT NULL,
    CONSTRAINT access_rule_pkey PRIMARY KEY (level, privilege, object),
    CONSTRAINT access_rule_level_check CHECK (level IN ('producer', 'proposer', 'worker', 'operator', 'reader')),
    CONSTRAINT access_rule_privilege_check CHECK (privilege IN ('EXECUTE', 'SELECT', 'INSERT', 'UPDATE', 'DELETE'))
);
COMMENT ON TABLE agentq.access_rule IS 'What each access level may do.';
COMMENT ON COLUMN agentq.access_rule.level IS 'producer, proposer, worker, operator or reader.';
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
    CONSTRAINT access_grant_level_check CHECK (level IN ('producer', 'proposer', 'worker', 'operator', 'reader'))
);
COMMENT ON TABLE agentq.access_grant IS 'Which role has been given which level.';
COMMENT ON COLUMN agentq.access_grant.role_name IS 'The role.';
COMMENT ON COLUMN agentq.access_grant.level IS 'Its level.';
COMMENT ON COLUMN agentq.access_grant.granted_at IS 'Since when.';
COMMENT ON COLUMN agentq.access_grant.granted_by IS 'By whom.';

SELECT pg_catalog.pg_extension_config_dump('agentq.access_grant', '');

CREATE FUNCTION agentq_internal.fn_access_check(p_role text, p_level text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF p_level IS NULL OR NOT EXISTS (SELECT FROM agentq.access_rule WHERE level = p_level) THEN
        RAISE EXCEPTION 'access level "%" is not known', coalesce(p_level, 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Use one of: producer, proposer, worker, operator, reader.';
    END IF;
    IF p_role IS NULL OR NOT EXISTS (SELECT FROM pg_roles WHERE rolname = p_role) THEN
        RAISE EXCEPTION 'there is no role "%"', coalesce(p_role, 'NULL')
            USING ERRCODE = 'undefined_object', HINT = 'Create it first: CREATE ROLE …; a level cannot be given to PUBLIC.';
    END IF;
END $$;
COMMENT ON FUNCTION agentq_internal.fn_access_check(text, text) IS 'Refuses an unknown role or level.';

-- The statements that give (or take) the privileges of some rules, one per object. Tokens are for nobody to read: of a table that has
-- any, a level gets the other columns.
CREATE FUNCTION agentq_internal.fn_access_targets(p_level text) RETURNS TABLE (privilege text, target text) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.privilege, 'FUNCTION ' || p.oid::regprocedure
    FROM agentq.access_rule r
    JOIN pg_proc p ON p.proname = r.object AND p.pronamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace)
    WHERE r.level = p_level AND r.privilege = 'EXECUTE'
    UNION ALL
    SELECT CASE WHEN r.privilege = 'SELECT' AND c.has_tokens THEN format('SELECT (%s)', c.columns) ELSE r.privilege END,
           'TABLE ' || format('agentq.%I', r.object)
    FROM agentq.access_rule r
    CROSS JOIN LATERAL (
        SELECT bool_or(a.attname IN ('token', 'lease_token')) AS has_tokens,
               string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FILTER (WHERE a.attname NOT IN ('token', 'lease_token')) AS columns
        FROM pg_attribute a WHERE a.attrelid = to_regclass(format('agentq.%I', r.object)) AND a.attnum > 0 AND NOT a.attisdropped) c
    WHERE r.level = p_level AND r.privilege <> 'EXECUTE'
$$;
COMMENT ON FUNCTION agentq_internal.fn_access_targets(text) IS 'The objects of an access level, as GRANT names them.';

-- A row in access_grant gives the privileges of its level, whoever puts it there: fn_access_grant, or
-- the restore of a dump.
CREATE FUNCTION agentq_internal.fn_access_apply() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_target record;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = NEW.role_name) THEN
        RAISE WARNING 'there is no role "%", so it was not given the level %', NEW.role_name, NEW.level
            USING HINT = 'Create the role, then call agentq.fn_access_grant.';
        RETURN NULL;
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA agentq TO %I', NEW.role_name);
    FOR v_target IN SELECT * FROM agentq_internal.fn_access_targets(NEW.level) LOOP
        EXECUTE format('GRANT %s ON %s TO %I', v_target.privilege, v_target.target, NEW.role_name);
    END LOOP;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION agentq_internal.fn_access_apply() IS 'Trigger: gives a role the privileges of its level.';

CREATE TRIGGER access_grant_apply AFTER INSERT OR UPDATE ON agentq.access_grant
    FOR EACH ROW EXECUTE FUNCTION agentq_internal.fn_access_apply();
COMMENT ON TRIGGER access_grant_apply ON agentq.access_grant IS 'Gives the privileges of the level.';
