-- name: job_state(job_id uuid)
SELECT state FROM agentq.job_queue WHERE job_id = $1
