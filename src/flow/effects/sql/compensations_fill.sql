INSERT INTO agentq.effect_compensation
    (compensation, of_operation, produces, counter_effects, requires_compensation, job_kind, queue, max_attempts)
SELECT c.key, c.value->>'of', ARRAY(SELECT jsonb_array_elements_text(c.value->'produces')),
       (c.value->>'counter_effects')::boolean, (c.value->>'requires_compensation')::boolean,
       c.value->>'job_kind', c.value->>'queue', (c.value->>'max_attempts')::integer
FROM jsonb_each($1->'compensations') c
