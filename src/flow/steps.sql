-- name: step_mine(job_id uuid, name text, index int4, token uuid)
SELECT occurrence, status, lease_token
FROM agentq_internal.job_step
WHERE job_id = $1 AND name = $2 AND ($3 IS NULL OR occurrence = $3) AND kind = 'step' AND status = 'begun' AND lease_token = $4
ORDER BY occurrence DESC
LIMIT 1
FOR NO KEY UPDATE

-- name: step_current(job_id uuid, name text, index int4)
SELECT occurrence, status, lease_token
FROM agentq_internal.job_step
WHERE job_id = $1 AND name = $2 AND ($3 IS NULL OR occurrence = $3) AND kind = 'step'
ORDER BY occurrence DESC
LIMIT 1
FOR NO KEY UPDATE

-- name: step_runs(job_id uuid, token uuid)
SELECT job_id FROM agentq_internal.job_lease WHERE job_id = $1 AND lease_token = $2
