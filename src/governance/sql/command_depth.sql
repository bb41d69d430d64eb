-- A mission within a step is as deep as the one around it, and a fork as the one that it was made from.
WITH RECURSIVE up AS (
    SELECT m.mission_id, m.parent_step_id, m.forked_from FROM agentq.mission m WHERE m.mission_id = $1
    UNION
    SELECT m.mission_id, m.parent_step_id, m.forked_from
    FROM up
    CROSS JOIN LATERAL (
        SELECT s.mission_id FROM agentq.mission_step s WHERE s.step_id = up.parent_step_id
        UNION ALL SELECT up.forked_from
    ) around
    JOIN agentq.mission m ON m.mission_id = around.mission_id
)
SELECT max(c.depth) FROM up JOIN agentq.command c ON c.mission_id = up.mission_id
