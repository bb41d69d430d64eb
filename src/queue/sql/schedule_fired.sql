UPDATE agentq.schedule
SET next_fire_at = $2, last_fire_at = coalesce($3, last_fire_at), last_job_id = $4, fired = fired + $5, skipped = skipped + $6
WHERE schedule = $1
