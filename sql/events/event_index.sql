-- The indexes by which events of one kind, of one mission, or of one command or run are found without reading all the others.
CREATE FUNCTION agentq_internal.fn_event_index(p_name text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('CREATE INDEX %I ON agentq_internal.%I (event_kind, event_id)', p_name || '_kind_idx', p_name);
    EXECUTE format('CREATE INDEX %I ON agentq_internal.%I (mission_id, event_id) WHERE mission_id IS NOT NULL', p_name || '_mission_idx', p_name);
    EXECUTE format('CREATE INDEX %I ON agentq_internal.%I (command_id, event_id) WHERE command_id IS NOT NULL', p_name || '_command_idx', p_name);
    EXECUTE format('CREATE INDEX %I ON agentq_internal.%I (agent_run_id, event_id) WHERE agent_run_id IS NOT NULL', p_name || '_run_idx', p_name);
    EXECUTE format('CREATE INDEX %I ON agentq_internal.%I (swarm_run_id, event_id) WHERE swarm_run_id IS NOT NULL', p_name || '_swarm_idx', p_name);
END $$;
COMMENT ON FUNCTION agentq_internal.fn_event_index(text) IS 'Makes the indexes of a partition of events by which they are found.';

SELECT agentq_internal.fn_event_index(name) FROM unnest(ARRAY['event_usual_rest', 'event_audit_rest']) AS name;
