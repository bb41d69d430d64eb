SELECT agentq.fn_event_partition_drop($1, $2, $3)
