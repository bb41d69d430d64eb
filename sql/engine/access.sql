-- Who may do what with the objects of this room.
SELECT agentq_internal.fn_access_allow('EXECUTE', '{reader, operator}', '{fn_engine_live, fn_engine_state}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{operator}', '{fn_engine_tick, fn_engine_chore_set}');
SELECT agentq_internal.fn_access_allow('SELECT', '{reader, operator}', '{engine_chore, v_engine_chore, v_engine_status}');
