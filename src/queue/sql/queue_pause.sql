UPDATE agentq.queue
SET paused_at = CASE WHEN $2 THEN coalesce(paused_at, $4) END,
    paused_reason = CASE WHEN $2 THEN $3 END,
    updated_at = $4
WHERE queue = $1
RETURNING jsonb_build_object('ok', true, 'code', CASE WHEN $2 THEN 'paused' ELSE 'resumed' END, 'queue', queue,
    'paused_at', paused_at, 'paused_reason', paused_reason)
