-- name: count_add(owner uuid, shard int4, delta int4, stop bool)
UPDATE agentq_internal.mission_count
SET active = active + $3, state = CASE WHEN $4 THEN 'stopping' ELSE state END
WHERE owner_id = $1 AND shard = $2
RETURNING active::integer, state::text

-- name: count_state(owner uuid, state text, from_states text[])
UPDATE agentq_internal.mission_count SET state = CASE WHEN state = ANY ($3) THEN $2 ELSE state END
WHERE owner_id = $1
RETURNING state::text = $2

-- name: count_gone(owner uuid)
DELETE FROM agentq_internal.mission_count WHERE owner_id = $1
