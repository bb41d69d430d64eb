SELECT command_id, decision, mission_id, reason FROM agentq.command WHERE dedupe_key = $1
