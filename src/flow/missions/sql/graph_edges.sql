SELECT e.parent_id, e.child_id, e.required
FROM agentq.mission_step s JOIN agentq.mission_edge e ON e.parent_id = s.step_id
WHERE s.mission_id = $1
