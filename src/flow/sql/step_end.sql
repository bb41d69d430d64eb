UPDATE agentq.job_step
SET status = CASE WHEN $6 IS NULL THEN 'done' ELSE 'failed' END, ended_at = $4, result = $5, error = $6
WHERE job_id = $1 AND name = $2 AND occurrence = $3 AND status = 'begun'
