-- What the functions of this room that are written in Rust are for.
COMMENT ON FUNCTION agentq.fn_engine_tick IS 'Runs all chores, or one, once: for servers without the engine.';
COMMENT ON FUNCTION agentq_internal.fn_engine_announce IS 'Tells the launcher that this database has the extension.';
COMMENT ON FUNCTION agentq_internal.fn_engine_chore_defaults IS 'The chores that the library knows.';
COMMENT ON FUNCTION agentq_internal.fn_engine_live IS 'The last run of each chore, as the engine remembers it.';
COMMENT ON FUNCTION agentq_internal.fn_engine_state IS 'How the engine of this database stands.';
