SELECT agentq.fn_event_partition_add($1, $2, $3)
