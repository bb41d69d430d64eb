-- Giving a level to a role, and taking it.
CREATE OR REPLACE FUNCTION agentq.fn_access_grant(p_role text, p_level text) RETURNS jsonb LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM agentq_internal.fn_bounded('fn_access_grant', 'p_role', octet_length(p_role)),
        agentq_internal.fn_bounded('fn_access_grant', 'p_level', octet_length(p_level));
    PERFORM agentq_internal.fn_access_check(p_role, p_level);
    INSERT INTO agentq.access_grant AS g (role_name, level) VALUES (p_role, p_level)
    ON CONFLICT (role_name, level) DO UPDATE SET granted_at = g.granted_at;
    RETURN jsonb_build_object('ok', true, 'code', 'granted', 'role', p_role, 'level', p_level);
END $$;
COMMENT ON FUNCTION agentq.fn_access_grant(text, text) IS 'Gives a role one of the levels producer, proposer, worker, operator or reader.';

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
