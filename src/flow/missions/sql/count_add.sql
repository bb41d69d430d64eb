UPDATE agentq.mission_count
SET active = active + $3, state = CASE WHEN $4 THEN 'stopping' ELSE state END
WHERE owner_id = $1 AND shard = $2
RETURNING active::integer, state::text
