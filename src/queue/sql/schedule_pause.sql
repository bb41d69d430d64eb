UPDATE agentq.schedule
SET paused_at = CASE WHEN $2 THEN coalesce(paused_at, $4) END,
    next_fire_at = CASE WHEN NOT $2 AND paused_at IS NOT NULL THEN $3 ELSE next_fire_at END,
    updated_at = $4
WHERE schedule = $1
RETURNING jsonb_build_object('ok', true, 'code', CASE WHEN $2 THEN 'paused' ELSE 'resumed' END, 'schedule', schedule,
    'paused', paused_at IS NOT NULL, 'next_fire_at', next_fire_at)
