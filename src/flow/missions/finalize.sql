-- name: mission_lock(mission_id uuid)
SELECT status, depth, parent_step_id, paused_at IS NOT NULL AS paused,
       cancellation_mode = 'compensate_then_stop' AS compensates, last_error, title,
       cancel_reason, cancelled_by, template->>'on_failure' = 'compensate' AS compensates_failure,
       template ? 'finally' AS has_finally, outcome, finally_of, parent_item, paused_with IS NOT NULL AS is_paused_whole
FROM agentq.mission WHERE mission_id = $1 FOR NO KEY UPDATE

-- before: mission_lock(mission_id uuid)
SELECT status, depth, parent_step_id, paused_at IS NOT NULL AS paused,
       cancellation_mode = 'compensate_then_stop' AS compensates, last_error, title,
       cancel_reason, cancelled_by, false AS compensates_failure, false AS has_finally, NULL::text AS outcome, NULL::uuid AS finally_of,
       NULL::integer AS parent_item, false AS is_paused_whole
FROM agentq.mission WHERE mission_id = $1 FOR NO KEY UPDATE

-- name: mission_waits(mission_id uuid)
SELECT step_id FROM agentq_internal.mission_step WHERE mission_id = $1 AND status = 'waiting' LIMIT 1

-- name: mission_sweep(mission_id uuid, why text, now timestamptz)
UPDATE agentq_internal.mission_step SET status = 'cancelled', last_error = $2, ended_at = $3
WHERE mission_id = $1 AND status = 'waiting'

-- name: mission_end(mission_id uuid, status text, now timestamptz)
UPDATE agentq.mission
SET status = $2, completed_at = CASE WHEN $2 NOT IN ('compensating', 'finishing') THEN $3::timestamptz END, paused_at = NULL,
    paused_reason = NULL, paused_with = NULL, updated_at = $3
WHERE mission_id = $1

-- before: mission_end(mission_id uuid, status text, now timestamptz)
UPDATE agentq.mission
SET status = $2, completed_at = CASE WHEN $2 <> 'compensating' THEN $3::timestamptz END, paused_at = NULL, paused_reason = NULL
WHERE mission_id = $1

-- name: mission_result(mission_id uuid)
SELECT jsonb_object_agg(name, result) FROM agentq_internal.mission_step
WHERE mission_id = $1 AND children = 0 AND status = 'succeeded'

-- name: mission_finish(mission_id uuid, outcome text, now timestamptz)
UPDATE agentq.mission SET status = 'finishing', outcome = $2, updated_at = $3, paused_at = NULL, paused_reason = NULL, paused_with = NULL
WHERE mission_id = $1
RETURNING jsonb_build_object('steps', template->'finally') AS template,
    jsonb_build_object('outcome', $2, 'error', last_error, 'reason', cancel_reason, 'input', input, 'mission_id', mission_id) AS input

-- before: mission_finish(mission_id uuid, outcome text, now timestamptz)
SELECT NULL::jsonb AS template, NULL::jsonb AS input WHERE num_nulls($1, $2, $3) < 0
