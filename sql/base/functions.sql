-- What the functions of this room that are written in Rust are for.
COMMENT ON FUNCTION agentq_internal.fn_bounded IS 'Refuses an argument of a function that is not written in Rust when it is larger than its bound.';
COMMENT ON FUNCTION agentq.fn_clock_now IS 'agentq''s time: the real one, unless a test moved this session''s clock with agentq.clock_offset.';
COMMENT ON FUNCTION agentq.fn_node_of IS 'The server that has made an id: its agentq.node. NULL for what is not time-ordered, such as a token.';
COMMENT ON FUNCTION agentq.fn_version IS 'Version of the library that is loaded.';
COMMENT ON FUNCTION agentq_internal.fn_config_accepts IS 'Whether a configuration key is known and accepts a value.';
COMMENT ON FUNCTION agentq_internal.fn_config_defaults IS 'Every configuration key with its default.';
COMMENT ON FUNCTION agentq.fn_config_get IS 'Value in force of a configuration key.';
COMMENT ON FUNCTION agentq.fn_config_set IS 'Sets a configuration key; an unknown key or a value it does not accept is refused.';
COMMENT ON FUNCTION agentq_internal.fn_settings_changed IS 'Trigger: makes every session read its copy of the table again.';
