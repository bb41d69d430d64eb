SELECT template, title, source, correlation_id, trace_id, input, policy_snapshot, command_id
FROM agentq.mission WHERE mission_id = $1
