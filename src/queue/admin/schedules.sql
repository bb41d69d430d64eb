-- name: schedule_set(schedule text, cron text, job jsonb, timezone text, missed text, overlap bool,
--   next_fire_at timestamptz, now timestamptz)
INSERT INTO agentq.schedule AS s (schedule, cron, job, timezone, missed, overlap, next_fire_at, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
ON CONFLICT (schedule) DO UPDATE
SET next_fire_at = CASE WHEN (s.cron, s.timezone) = (excluded.cron, excluded.timezone) THEN s.next_fire_at
                        ELSE excluded.next_fire_at END,
    cron = excluded.cron, job = excluded.job, timezone = excluded.timezone, missed = excluded.missed,
    overlap = excluded.overlap, updated_at = excluded.updated_at
RETURNING jsonb_build_object('ok', true, 'code', CASE WHEN s.xmax = 0 THEN 'created' ELSE 'updated' END, 'schedule', s.schedule,
    'cron', s.cron, 'timezone', s.timezone, 'missed', s.missed, 'overlap', s.overlap,
    'paused', s.paused_at IS NOT NULL, 'next_fire_at', s.next_fire_at)

-- name: schedule_pause(name text, paused bool, next timestamptz, now timestamptz)
UPDATE agentq.schedule
SET paused_at = CASE WHEN $2 THEN coalesce(paused_at, $4) END,
    next_fire_at = CASE WHEN NOT $2 AND paused_at IS NOT NULL THEN $3 ELSE next_fire_at END,
    updated_at = $4
WHERE schedule = $1
RETURNING jsonb_build_object('ok', true, 'code', CASE WHEN $2 THEN 'paused' ELSE 'resumed' END, 'schedule', schedule,
    'paused', paused_at IS NOT NULL, 'next_fire_at', next_fire_at)

-- name: schedule_remove(name text)
DELETE FROM agentq.schedule WHERE schedule = $1
RETURNING jsonb_build_object('ok', true, 'code', 'removed', 'schedule', schedule)

-- name: schedule_rule(name text)
SELECT cron, timezone FROM agentq.schedule WHERE schedule = $1 FOR UPDATE

-- name: schedules_due(now timestamptz, left_alone text[])
SELECT schedule, cron, timezone, job, missed, overlap, next_fire_at, last_job_id
FROM agentq.schedule
WHERE next_fire_at <= $1 AND paused_at IS NULL AND schedule <> ALL ($2)
ORDER BY next_fire_at, schedule
LIMIT 100
FOR UPDATE SKIP LOCKED

-- name: schedule_fired(name text, next timestamptz, one timestamptz, last_job_id uuid, _i64 int8, _i64_2 int8)
UPDATE agentq.schedule
SET next_fire_at = $2, last_fire_at = coalesce($3, last_fire_at), last_job_id = $4, fired = fired + $5, skipped = skipped + $6
WHERE schedule = $1

-- name: schedule_next()
SELECT min(next_fire_at) FROM agentq.schedule WHERE paused_at IS NULL

-- name: is_unfinished(job uuid)
SELECT EXISTS (SELECT FROM agentq_internal.job WHERE job_id = $1) AND NOT EXISTS (SELECT FROM agentq_internal.job_done WHERE job_id = $1)
