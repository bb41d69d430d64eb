SELECT max(taken_at) FROM agentq.metric
