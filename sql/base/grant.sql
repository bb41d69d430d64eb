CREATE OR REPLACE FUNCTION agentq_internal.fn_access_check(p_role text, p_level text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF p_level IS NULL OR NOT EXISTS (SELECT FROM agentq.access_rule WHERE level = p_level) THEN
        RAISE EXCEPTION 'access level "%" is not known', coalesce(p_level, 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Use one of: producer, proposer, worker, operator, reader, delegate.';
    END IF;
    IF p_role IS NULL OR NOT EXISTS (SELECT FROM pg_roles WHERE rolname = p_role) THEN
        RAISE EXCEPTION 'there is no role "%"', coalesce(p_role, 'NULL')
            USING ERRCODE = 'undefined_object', HINT = 'Create it first: CREATE ROLE …; a level cannot be given to PUBLIC.';
    END IF;
END $$;
COMMENT ON FUNCTION agentq_internal.fn_access_check(text, text) IS 'Refuses an unknown role or level.';

-- The statements that give (or take) the privileges of some rules, one per object. Tokens are for nobody to read: of a table that has
-- any, a level gets the other columns. Who acts for others may call what any level may: the library then looks at the role of the token.
CREATE OR REPLACE FUNCTION agentq_internal.fn_access_targets(p_level text) RETURNS TABLE (privilege text, target text) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT DISTINCT r.privilege, 'FUNCTION ' || p.oid::regprocedure
    FROM agentq.access_rule r
    JOIN pg_proc p ON p.proname = r.object AND p.pronamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace)
    WHERE r.privilege = 'EXECUTE' AND (r.level = p_level OR p_level = 'delegate' AND p.pronamespace = 'agentq'::regnamespace)
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

CREATE OR REPLACE FUNCTION agentq_internal.fn_is_preloaded() RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT current_setting('shared_preload_libraries') ~ '(^|[ ,"/])agentq($|[ ,".])'
$$;
COMMENT ON FUNCTION agentq_internal.fn_is_preloaded() IS 'Whether the server preloads agentq.';

-- A row in access_grant gives the privileges of its level, whoever puts it there: fn_access_grant, or
-- the restore of a dump.
CREATE OR REPLACE FUNCTION agentq_internal.fn_access_apply() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_target record;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = NEW.role_name) THEN
        RAISE WARNING 'there is no role "%", so it was not given the level %', NEW.role_name, NEW.level
            USING HINT = 'Create the role, then call agentq.fn_access_grant.';
        RETURN NULL;
    END IF;
    IF NEW.level = 'delegate' AND NOT agentq_internal.fn_is_preloaded() THEN
        RAISE WARNING 'the role "%" was not given the level delegate, which needs agentq in shared_preload_libraries', NEW.role_name
            USING HINT = 'Add it, restart the server, then call agentq.fn_access_grant.';
        RETURN NULL;
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA agentq TO %I', NEW.role_name);
    FOR v_target IN SELECT * FROM agentq_internal.fn_access_targets(NEW.level) LOOP
        EXECUTE format('GRANT %s ON %s TO %I', v_target.privilege, v_target.target, NEW.role_name);
    END LOOP;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION agentq_internal.fn_access_apply() IS 'Trigger: gives a role the privileges of its level.';

-- Giving a level to a role, and taking it.
CREATE OR REPLACE FUNCTION agentq.fn_access_grant(p_role text, p_level text) RETURNS jsonb LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM agentq_internal.fn_bounded('fn_access_grant', 'p_role', octet_length(p_role)),
        agentq_internal.fn_bounded('fn_access_grant', 'p_level', octet_length(p_level));
    PERFORM agentq_internal.fn_access_check(p_role, p_level);
    IF p_level = 'delegate' AND NOT agentq_internal.fn_is_preloaded() THEN
        RAISE EXCEPTION 'the level delegate needs agentq in shared_preload_libraries'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Add it and restart the server: the library stands at the door of every function that such a login calls.';
    END IF;
    IF EXISTS (SELECT FROM agentq.access_grant WHERE role_name = p_role AND (level = 'delegate') <> (p_level = 'delegate')) THEN
        RAISE EXCEPTION 'the role "%" cannot have the level delegate beside others', p_role
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'A login that acts for others has no rights of its own. Take the one with agentq.fn_access_revoke first, or use another role.';
    END IF;
    INSERT INTO agentq.access_grant AS g (role_name, level) VALUES (p_role, p_level)
    ON CONFLICT (role_name, level) DO UPDATE SET granted_at = g.granted_at;
    RETURN jsonb_build_object('ok', true, 'code', 'granted', 'role', p_role, 'level', p_level);
END $$;
COMMENT ON FUNCTION agentq.fn_access_grant(text, text) IS 'Gives a role one of the levels producer, proposer, worker, operator, reader or delegate.';

CREATE OR REPLACE FUNCTION agentq.fn_access_revoke(p_role text, p_level text) RETURNS jsonb LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_target record;
BEGIN
    PERFORM agentq_internal.fn_bounded('fn_access_revoke', 'p_role', octet_length(p_role)),
        agentq_internal.fn_bounded('fn_access_revoke', 'p_level', octet_length(p_level));
    PERFORM agentq_internal.fn_access_check(p_role, p_level);
    FOR v_target IN SELECT * FROM agentq_internal.fn_access_targets(p_level) LOOP
        EXECUTE format('REVOKE %s ON %s FROM %I', v_target.privilege, v_target.target, p_role);
    END LOOP;
    DELETE FROM agentq.access_grant WHERE role_name = p_role AND level = p_level;
    IF NOT EXISTS (SELECT FROM agentq.access_grant WHERE role_name = p_role) THEN
        EXECUTE format('REVOKE USAGE ON SCHEMA agentq FROM %I', p_role);
    END IF;
    -- Levels overlap: what another level of the role also gives is given again.
    UPDATE agentq.access_grant SET granted_at = granted_at WHERE role_name = p_role;
    RETURN jsonb_build_object('ok', true, 'code', 'revoked', 'role', p_role, 'level', p_level);
END $$;
COMMENT ON FUNCTION agentq.fn_access_revoke(text, text) IS 'Takes a level from a role again; what its other levels give stays.';
