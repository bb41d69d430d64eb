WITH RECURSIVE m (id) AS (
    SELECT $1::uuid
    UNION ALL
    SELECT s.child_id FROM m JOIN agentq.mission_step s ON s.mission_id = m.id WHERE s.child_id IS NOT NULL
)
SELECT e.effect_id
FROM m CROSS JOIN LATERAL (
    SELECT effect_id FROM agentq.effect WHERE mission_id = m.id AND compensates IS NULL OFFSET 0
) f
JOIN agentq.effect e ON e.effect_id = f.effect_id
ORDER BY e.seq
FOR UPDATE OF e
