UPDATE agentq.mission_count SET state = CASE WHEN state = ANY ($3) THEN $2 ELSE state END
WHERE owner_id = $1
RETURNING state::text = $2
