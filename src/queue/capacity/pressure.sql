-- name: pressure(is_limited bool) freely
SELECT coalesce((SELECT e.payload->>'level' FROM agentq.event e
                 WHERE e.subject = 'backpressure' AND e.event_kind = 'backpressure.changed'
                 ORDER BY e.event_id DESC LIMIT 1), 'normal') AS before,
       CASE WHEN $1 THEN agentq.fn_backpressure_status() ELSE '{"level": "normal"}'::jsonb END AS status
