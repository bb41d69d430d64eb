UPDATE agentq.mission_item i
SET status = $3, result = $4, last_error = $5, ended_at = $6
FROM agentq.mission_step s
WHERE i.step_id = $1 AND i.item = $2 AND i.status = 'queued' AND i.job_id = $7 AND s.step_id = $1
RETURNING s.item_count
