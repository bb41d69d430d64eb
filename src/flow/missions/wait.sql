-- name: mission_over(mission_id uuid)
SELECT m.completed_at IS NOT NULL AS is_over,
    jsonb_build_object('ok', m.completed_at IS NULL OR m.status = 'succeeded',
        'code', CASE WHEN m.completed_at IS NULL THEN 'pending' ELSE m.status END, 'mission_id', m.mission_id, 'status', m.status)
    || CASE WHEN m.completed_at IS NULL THEN '{}' ELSE jsonb_build_object('completed_at', m.completed_at, 'failed_step', m.failed_step,
           'error', coalesce(m.last_error, m.cancel_reason)) END
    || coalesce((SELECT jsonb_build_object('compensation', jsonb_build_object('chain_id', c.chain_id, 'status', c.status,
           'effects', c.effects, 'compensated', c.compensated, 'error', c.error))
        FROM agentq.effect_chain c WHERE c.mission_id = $1 ORDER BY c.started_at DESC, c.chain_id DESC LIMIT 1), '{}') AS answer
FROM agentq.mission m WHERE m.mission_id = $1
