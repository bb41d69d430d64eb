SELECT c.mission_id
FROM agentq.mission_step s
CROSS JOIN LATERAL (SELECT m.mission_id FROM agentq.mission m WHERE m.mission_id = s.child_id AND m.completed_at IS NULL OFFSET 0) c
WHERE s.mission_id = $1 AND s.status = 'queued' AND s.child_id IS NOT NULL
ORDER BY c.mission_id
