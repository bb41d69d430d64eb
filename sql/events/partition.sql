-- Makes a partition. It is attached, which lets events be written and read meanwhile; a partition "of"
-- would wait for every reader.
CREATE OR REPLACE FUNCTION agentq_internal.fn_event_partition_make(p_whole text, p_name text, p_from text, p_to text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_owner text := (SELECT relowner::regrole::text FROM pg_class WHERE oid = 'agentq.event'::regclass);
BEGIN
    EXECUTE format('CREATE TABLE agentq_internal.%I (LIKE agentq_internal.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', p_name, p_whole);
    IF p_whole LIKE 'event\_log%' THEN
        EXECUTE format('ALTER TABLE agentq_internal.%I ADD CONSTRAINT %I PRIMARY KEY (seq)', p_name, p_name || '_pkey');
        EXECUTE format('ALTER TABLE agentq_internal.%I ADD CONSTRAINT %I UNIQUE (event_id)', p_name, p_name || '_event_key');
    ELSE
        EXECUTE format('ALTER TABLE agentq_internal.%I ADD CONSTRAINT %I PRIMARY KEY (event_id)', p_name, p_name || '_pkey');
        EXECUTE format('CREATE INDEX %I ON agentq_internal.%I (subject, event_id)', p_name || '_subject_idx', p_name);
        EXECUTE format('CREATE INDEX %I ON agentq_internal.%I (xid, event_id)', p_name || '_xid_idx', p_name);
        PERFORM agentq_internal.fn_event_index(p_name);
    END IF;
    EXECUTE format('COMMENT ON TABLE agentq_internal.%I IS %L', p_name, format('Of %s, from %s to %s.', p_whole, p_from, p_to));
    EXECUTE format('CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq_internal.%I
        FOR EACH STATEMENT EXECUTE FUNCTION agentq_internal.fn_event_keep()', p_name);
    EXECUTE format('REVOKE ALL ON agentq_internal.%I FROM PUBLIC', p_name);
    -- The engine is nobody's role: its tables belong to whoever has the others.
    EXECUTE format('ALTER TABLE agentq_internal.%I OWNER TO %s', p_name, v_owner);
    EXECUTE format('ALTER TABLE agentq_internal.%I ATTACH PARTITION agentq_internal.%I FOR VALUES FROM (%L) TO (%L)', p_whole, p_name, p_from, p_to);
END $$;
COMMENT ON FUNCTION agentq_internal.fn_event_partition_make(text, text, text, text) IS 'Makes a partition of events, or of their log.';
