-- Who may do what with the objects of this room.
SELECT agentq_internal.fn_access_allow('EXECUTE', '{producer, proposer, worker, reader, operator}', '{fn_clock_now, fn_node_of, fn_version, fn_whoami, fn_token_issue, fn_token_revoke, fn_token_list}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{delegate}', '{fn_act_as}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{reader, operator}', '{fn_config_get}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{operator}', '{fn_config_set}');
SELECT agentq_internal.fn_access_allow('SELECT', '{reader, operator}', '{config}');
