WITH operations AS (
    DELETE FROM agentq.effect_operation
), compensations AS (
    DELETE FROM agentq.effect_compensation
)
DELETE FROM agentq.effect_type
