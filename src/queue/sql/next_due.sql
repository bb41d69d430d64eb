SELECT scheduled_at, job_id FROM agentq.job_waiting
WHERE (scheduled_at, job_id) >= ($1, $2)
ORDER BY scheduled_at, job_id
LIMIT 1
