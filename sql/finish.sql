-- The end of the script, when all objects are there: nothing is for PUBLIC, the launcher learns of this
-- database, and whoever installs learns whether there is an engine.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA agentq, agentq_internal FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA agentq, agentq_internal FROM PUBLIC;

SELECT agentq_internal.fn_engine_announce();

DO $$
BEGIN
    IF current_setting('shared_preload_libraries') !~ '(^|[ ,"/])agentq($|[ ,".])' THEN
        RAISE NOTICE 'agentq is not in shared_preload_libraries; everything works, but there is no engine, and claims keep no scan marks'
            USING HINT = 'Add agentq to shared_preload_libraries and restart the server; until then, call agentq.fn_engine_tick() from a scheduler.';
    END IF;
END $$;
