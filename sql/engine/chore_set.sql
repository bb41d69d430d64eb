-- How often the engine does what, and whether.
CREATE OR REPLACE FUNCTION agentq.fn_engine_chore_set(p_chore text, p_enabled boolean DEFAULT NULL, p_every_seconds numeric DEFAULT NULL)
RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_chore agentq.engine_chore;
BEGIN
    PERFORM agentq_internal.fn_bounded('fn_engine_chore_set', 'p_chore', octet_length(p_chore));
    IF p_every_seconds NOT BETWEEN 0.1 AND 86400 THEN
        RAISE EXCEPTION 'p_every_seconds must be from 0.1 to 86400, but is %', p_every_seconds
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Switch a chore off with p_enabled => false.';
    END IF;
    UPDATE agentq.engine_chore
    SET enabled = coalesce(p_enabled, enabled), every_seconds = coalesce(p_every_seconds, every_seconds)
    WHERE chore = p_chore RETURNING * INTO v_chore;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no chore "%"', coalesce(p_chore, 'NULL')
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'The chores are: ' || (SELECT string_agg(chore, ', ' ORDER BY chore) FROM agentq.engine_chore) || '.';
    END IF;
    PERFORM agentq_internal.fn_engine_announce();
    RETURN jsonb_build_object('ok', true, 'code', 'set', 'chore', v_chore.chore, 'enabled', v_chore.enabled,
        'every_seconds', v_chore.every_seconds);
END $$;
COMMENT ON FUNCTION agentq.fn_engine_chore_set(text, boolean, numeric) IS 'Switches a chore on or off, or changes how often it runs.';
