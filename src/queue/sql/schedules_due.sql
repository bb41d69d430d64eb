SELECT schedule, cron, timezone, job, missed, overlap, next_fire_at, last_job_id
FROM agentq.schedule
WHERE next_fire_at <= $1 AND paused_at IS NULL
ORDER BY next_fire_at, schedule
LIMIT 100
FOR UPDATE SKIP LOCKED
