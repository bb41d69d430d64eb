-- name: manifest_lock()
LOCK TABLE agentq.effect_manifest IN SHARE ROW EXCLUSIVE MODE

-- name: manifest_head()
SELECT manifest_id FROM agentq.effect_manifest ORDER BY version DESC LIMIT 1

-- name: manifest_load() freely
SELECT version, manifest_id, jsonb_build_object(
    'operations', (
        SELECT coalesce(jsonb_object_agg(operation, to_jsonb(o) - 'operation'), '{}') FROM agentq.effect_operation o),
    'compensations', (
        SELECT coalesce(jsonb_object_agg(compensation,
            to_jsonb(c) - 'compensation' - 'of_operation' || jsonb_build_object('of', of_operation)), '{}')
        FROM agentq.effect_compensation c),
    'inverse_of', (
        SELECT coalesce(jsonb_object_agg(effect_type, inverse), '{}') FROM agentq.effect_type WHERE inverse IS NOT NULL),
    'idempotent', (
        SELECT coalesce(jsonb_object_agg(effect_type, true), '{}') FROM agentq.effect_type WHERE idempotent)) AS document
FROM agentq.effect_manifest
ORDER BY version DESC
LIMIT 1

-- name: manifest_add(version int8, manifest_id uuid, manifest jsonb, note text, set_at timestamptz, set_by text)
INSERT INTO agentq.effect_manifest (version, manifest_id, manifest, note, set_at, set_by)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (version) DO NOTHING
RETURNING version

-- name: manifest_clear() freely
WITH operations AS (
    DELETE FROM agentq.effect_operation
), compensations AS (
    DELETE FROM agentq.effect_compensation
)
DELETE FROM agentq.effect_type

-- name: operations_fill(manifest jsonb)
INSERT INTO agentq.effect_operation (operation, produces, requires_compensation, compensation, job_kind)
SELECT o.key, ARRAY(SELECT jsonb_array_elements_text(o.value->'produces')), (o.value->>'requires_compensation')::boolean,
       o.value->>'compensation', o.value->>'job_kind'
FROM jsonb_each($1->'operations') o

-- name: compensations_fill(manifest jsonb)
INSERT INTO agentq.effect_compensation
    (compensation, of_operation, produces, counter_effects, requires_compensation, job_kind, queue, max_attempts)
SELECT c.key, c.value->>'of', ARRAY(SELECT jsonb_array_elements_text(c.value->'produces')),
       (c.value->>'counter_effects')::boolean, (c.value->>'requires_compensation')::boolean,
       c.value->>'job_kind', c.value->>'queue', (c.value->>'max_attempts')::integer
FROM jsonb_each($1->'compensations') c

-- name: types_fill(manifest jsonb)
INSERT INTO agentq.effect_type (effect_type, inverse, idempotent)
SELECT effect_type, $1->'inverse_of'->>effect_type, coalesce(($1->'idempotent'->>effect_type)::boolean, false)
FROM (SELECT jsonb_object_keys($1->'inverse_of') UNION SELECT jsonb_object_keys($1->'idempotent')) t(effect_type)
