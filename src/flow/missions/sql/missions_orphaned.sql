SELECT c.mission_id
FROM (SELECT DISTINCT owner_id FROM agentq.mission_count WHERE state = 'stopping') k
JOIN agentq.mission_step s ON s.mission_id = k.owner_id AND s.child_id IS NOT NULL AND s.status = 'queued'
JOIN agentq.mission c ON c.mission_id = s.child_id AND c.status IN ('approved', 'running') AND c.last_error IS NULL
LIMIT 20
