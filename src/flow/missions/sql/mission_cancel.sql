UPDATE agentq.mission
SET status = 'cancelling', cancel_reason = $2, cancelled_by = $3, cancellation_mode = coalesce($4, cancellation_mode),
    paused_at = NULL, paused_reason = NULL
WHERE mission_id = $1
