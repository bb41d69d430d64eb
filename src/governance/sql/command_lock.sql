SELECT decision, decided_by, mission_id, reason, title, source, depth, policy_snapshot, template
FROM agentq.command WHERE command_id = $1 FOR UPDATE
