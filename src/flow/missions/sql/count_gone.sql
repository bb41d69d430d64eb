DELETE FROM agentq.mission_count WHERE owner_id = $1
