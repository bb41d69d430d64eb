INSERT INTO agentq.effect_operation (operation, produces, requires_compensation, compensation, job_kind)
SELECT o.key, ARRAY(SELECT jsonb_array_elements_text(o.value->'produces')), (o.value->>'requires_compensation')::boolean,
       o.value->>'compensation', o.value->>'job_kind'
FROM jsonb_each($1->'operations') o
