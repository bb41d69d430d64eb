UPDATE agentq.mission_count SET state = $2 WHERE owner_id = $1 AND state = ANY ($3) RETURNING shard
