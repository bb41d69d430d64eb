WITH here AS (
    SELECT e.effect_id, e.status, e.declared_compensation,
           EXISTS (SELECT FROM agentq.effect_chain c
                   WHERE c.chain_id = e.chain_id AND c.status = 'running') AS taken
    FROM unnest($2) AS wanted(effect_id)
    JOIN agentq.effect e ON e.effect_id = wanted.effect_id
), mine AS (
    UPDATE agentq.effect e SET chain_id = $1
    FROM here
    WHERE e.effect_id = here.effect_id AND NOT here.taken AND here.declared_compensation IS NOT NULL
      AND (here.status IN ('succeeded', 'compensation_failed') OR (here.status = 'executing' AND $3))
    RETURNING e.effect_id
)
SELECT (SELECT count(*)::integer FROM mine),
       (SELECT array_agg(effect_id) FROM here WHERE status = 'executing' AND NOT taken),
       (SELECT count(*)::integer FROM here WHERE status = 'succeeded' AND declared_compensation IS NULL)
