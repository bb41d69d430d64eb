SELECT origin FROM agentq.event_seal WHERE one
