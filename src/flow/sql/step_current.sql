SELECT occurrence, status, lease_token
FROM agentq.job_step
WHERE job_id = $1 AND name = $2 AND ($3 IS NULL OR occurrence = $3) AND kind = 'step'
ORDER BY occurrence DESC
LIMIT 1
FOR NO KEY UPDATE
