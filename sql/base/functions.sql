-- What the functions of this room that are written in Rust are for.
COMMENT ON FUNCTION agentq_internal.fn_bounded IS 'Refuses an argument of a function that is not written in Rust when it is larger than its bound.';
COMMENT ON FUNCTION agentq.fn_clock_now IS 'agentq''s time: the real one, unless a test moved this session''s clock with agentq.clock_offset.';
COMMENT ON FUNCTION agentq.fn_node_of IS 'The server that has made an id: its agentq.node. NULL for what is not time-ordered, such as a token.';
COMMENT ON FUNCTION agentq.fn_version IS 'Version of the library that is loaded.';
COMMENT ON FUNCTION agentq.fn_act_as IS 'Says for whom this transaction acts, by a token: what is called in it afterwards is done by the role of the token, and only if that may. For logins with the level delegate.';
COMMENT ON FUNCTION agentq.fn_whoami IS 'Who acts in this transaction, with whose rights and levels, and by which token.';
COMMENT ON FUNCTION agentq.fn_token_issue IS 'Issues a token of the kind console, api or mcp, with which others can act for your role. It is in this answer alone.';
COMMENT ON FUNCTION agentq.fn_token_revoke IS 'Ends a token of your role, and those that were issued with it; operators end any.';
COMMENT ON FUNCTION agentq.fn_token_list IS 'The tokens of your role, the newest first; operators see all. Options: ended, after, limit.';
COMMENT ON FUNCTION agentq_internal.fn_actor IS 'Who acts, by name.';
COMMENT ON FUNCTION agentq_internal.fn_role_that_sees IS 'The role that decides what the caller sees. NULL: nobody''s.';
COMMENT ON FUNCTION agentq_internal.fn_config_accepts IS 'Whether a configuration key is known and accepts a value.';
COMMENT ON FUNCTION agentq_internal.fn_config_defaults IS 'Every configuration key with its default.';
COMMENT ON FUNCTION agentq.fn_config_get IS 'Value in force of a configuration key.';
COMMENT ON FUNCTION agentq.fn_config_set IS 'Sets a configuration key; an unknown key or a value it does not accept is refused.';
COMMENT ON FUNCTION agentq_internal.fn_settings_changed IS 'Trigger: makes every session read its copy of the table again.';
