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
        SELECT coalesce(jsonb_object_agg(effect_type, true), '{}') FROM agentq.effect_type WHERE idempotent))
FROM agentq.effect_manifest
ORDER BY version DESC
LIMIT 1
