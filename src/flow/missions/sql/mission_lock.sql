SELECT status, depth, parent_step_id, paused_at IS NOT NULL, cancellation_mode = 'compensate_then_stop', last_error, title,
       cancel_reason
FROM agentq.mission WHERE mission_id = $1 FOR NO KEY UPDATE
