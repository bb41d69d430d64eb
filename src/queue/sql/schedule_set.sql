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
