INSERT INTO agentq.effect_type (effect_type, inverse, idempotent)
SELECT effect_type, $1->'inverse_of'->>effect_type, coalesce(($1->'idempotent'->>effect_type)::boolean, false)
FROM (SELECT jsonb_object_keys($1->'inverse_of') UNION SELECT jsonb_object_keys($1->'idempotent')) t(effect_type)
