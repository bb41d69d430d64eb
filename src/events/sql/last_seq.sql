SELECT last_seq FROM agentq.event_seal WHERE one
