SELECT seen_by IS NOT DISTINCT FROM $3
FROM agentq.job_step
WHERE order_job_id = $1 AND position < $2
ORDER BY position DESC
LIMIT 1
