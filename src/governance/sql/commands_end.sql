UPDATE agentq.command c SET state = m.status, finished_at = $2, updated_at = $2
FROM agentq.mission m
WHERE m.mission_id = ANY ($1) AND m.status IN ('succeeded', 'failed', 'cancelled')
  AND c.mission_id = m.mission_id AND c.finished_at IS NULL
