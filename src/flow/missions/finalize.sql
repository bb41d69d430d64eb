-- name: mission_lock(mission_id uuid)
SELECT status, depth, parent_step_id, paused_at IS NOT NULL AS paused,
       cancellation_mode = 'compensate_then_stop' AS compensates, last_error, title,
       cancel_reason
FROM agentq.mission WHERE mission_id = $1 FOR NO KEY UPDATE

-- name: mission_waits(mission_id uuid)
SELECT step_id FROM agentq_internal.mission_step WHERE mission_id = $1 AND status = 'waiting' LIMIT 1

-- name: mission_sweep(mission_id uuid, why text, now timestamptz)
UPDATE agentq_internal.mission_step SET status = 'cancelled', last_error = $2, ended_at = $3
WHERE mission_id = $1 AND status = 'waiting'

-- name: mission_end(mission_id uuid, status text, now timestamptz)
UPDATE agentq.mission
SET status = $2, completed_at = CASE WHEN $2 <> 'compensating' THEN $3::timestamptz END, paused_at = NULL, paused_reason = NULL
WHERE mission_id = $1

-- name: mission_result(mission_id uuid)
SELECT jsonb_object_agg(name, result) FROM agentq_internal.mission_step
WHERE mission_id = $1 AND children = 0 AND status = 'succeeded'
