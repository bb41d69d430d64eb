SELECT agentq.fn_event_log_drop($1, $2)
