WITH old AS (
    SELECT m.mission_id FROM agentq.mission m
    WHERE m.completed_at <= $1
      AND NOT EXISTS (SELECT FROM agentq.mission_step p JOIN agentq.mission o ON o.mission_id = p.mission_id
                      WHERE p.step_id = m.parent_step_id AND o.completed_at IS NULL)
    ORDER BY m.completed_at LIMIT $2
    FOR UPDATE OF m SKIP LOCKED
), steps AS (
    SELECT s.step_id FROM old JOIN agentq.mission_step s USING (mission_id)
), edges AS (
    DELETE FROM agentq.mission_edge e USING steps WHERE e.parent_id = steps.step_id
), items AS (
    DELETE FROM agentq.mission_item i USING steps WHERE i.step_id = steps.step_id
), rows AS (
    DELETE FROM agentq.mission_step s USING old WHERE s.mission_id = old.mission_id
), gone AS (
    DELETE FROM agentq.mission m USING old WHERE m.mission_id = old.mission_id RETURNING m.mission_id
)
SELECT count(*) FROM gone
