SELECT agentq.fn_event_log_add($1, $2, $3)
