SELECT mission_id, deadline_at FROM agentq.mission
WHERE deadline_at <= $1 AND completed_at IS NULL AND status IN ('approved', 'running') AND last_error IS NULL
ORDER BY deadline_at LIMIT 20
