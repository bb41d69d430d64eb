-- Who may do what with the objects of this room.
SELECT agentq_internal.fn_access_allow('EXECUTE', '{producer, worker, operator}', '{fn_event_emit}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{worker, reader, operator}', '{fn_event_read}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{reader, operator}', '{fn_event_verify}');
SELECT agentq_internal.fn_access_allow('SELECT', '{reader, operator}', '{event, event_log, event_chain, v_event_partition}');
