UPDATE agentq.command c SET state = e.state, finished_at = $3, updated_at = $3
FROM unnest($1, $2) AS e(mission_id, state)
WHERE c.mission_id = e.mission_id AND c.finished_at IS NULL
