SELECT name, occurrence
FROM agentq.job_step
WHERE order_job_id = $1 AND seen_by IS DISTINCT FROM $2
ORDER BY position
LIMIT 1
