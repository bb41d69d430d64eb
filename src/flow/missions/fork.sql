-- name: fork_mission(mission_id uuid)
SELECT template, title, source, input, policy_snapshot, command_id, status
FROM agentq.mission WHERE mission_id = $1

-- name: fork_steps(mission_id uuid)
-- What a step has changed outside is undone, or about to be: then its result is worth nothing.
SELECT s.position, s.step_id, s.status::text, s.fails_mission, s.result, s.last_error,
       EXISTS (SELECT FROM agentq_internal.effect e
               WHERE e.mission_id = $1 AND e.step_id = s.step_id AND e.compensates IS NULL
                 AND (e.status IN ('compensating', 'compensated', 'compensation_failed')
                      OR EXISTS (SELECT FROM agentq.effect_chain c WHERE c.chain_id = e.chain_id AND c.status = 'running'))) AS is_undone
FROM agentq_internal.mission_step s WHERE s.mission_id = $1

-- name: effects_inherit(fork uuid)
WITH RECURSIVE taken (step_id, mission_id, old_step_id) AS (
    SELECT n.step_id, o.mission_id, o.step_id
    FROM agentq_internal.mission_step n
    CROSS JOIN LATERAL (SELECT * FROM agentq_internal.mission_step s WHERE s.step_id = n.taken_from OFFSET 0) o
    WHERE n.mission_id = $1 AND n.taken_from IS NOT NULL
    UNION ALL
    SELECT t.step_id, i.mission_id, i.step_id
    FROM taken t
    CROSS JOIN LATERAL (SELECT m.mission_id FROM agentq.mission m WHERE m.parent_step_id = t.old_step_id OFFSET 0) c
    CROSS JOIN LATERAL (SELECT * FROM agentq_internal.mission_step s WHERE s.mission_id = c.mission_id OFFSET 0) i
), mine AS (
    SELECT e.effect_id, t.step_id
    FROM taken t
    JOIN agentq_internal.effect e ON e.mission_id = t.mission_id AND e.step_id = t.old_step_id AND e.compensates IS NULL
    ORDER BY e.seq
    FOR UPDATE OF e
)
UPDATE agentq_internal.effect e SET mission_id = $1, step_id = mine.step_id FROM mine WHERE e.effect_id = mine.effect_id
