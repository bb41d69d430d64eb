-- name: mission_fail(mission_id uuid, step text, error text)
UPDATE agentq.mission SET failed_step = coalesce(failed_step, $2), last_error = coalesce(last_error, nullif($3, ''), 'a step failed'),
    updated_at = agentq.fn_clock_now()
WHERE mission_id = $1 AND status <> 'cancelling'

-- before: mission_fail(mission_id uuid, step text, error text)
UPDATE agentq.mission SET failed_step = coalesce(failed_step, $2), last_error = coalesce(last_error, nullif($3, ''), 'a step failed')
WHERE mission_id = $1 AND status <> 'cancelling'

-- name: mission_cancel(mission_id uuid, reason text, by text, mode text)
UPDATE agentq.mission
SET status = 'cancelling', cancel_reason = $2, cancelled_by = $3, cancellation_mode = coalesce($4, cancellation_mode),
    paused_at = NULL, paused_reason = NULL, paused_with = NULL, updated_at = agentq.fn_clock_now()
WHERE mission_id = $1

-- before: mission_cancel(mission_id uuid, reason text, by text, mode text)
UPDATE agentq.mission
SET status = 'cancelling', cancel_reason = $2, cancelled_by = $3, cancellation_mode = coalesce($4, cancellation_mode),
    paused_at = NULL, paused_reason = NULL
WHERE mission_id = $1

-- name: queued_steps(mission_id uuid)
SELECT s.step_id, s.job_id, s.shard FROM agentq_internal.mission_step s
WHERE s.mission_id = $1 AND s.status = 'queued' AND s.job_id IS NOT NULL
  AND (SELECT l.job_id FROM agentq_internal.job_lease l WHERE l.job_id = s.job_id) IS NULL
ORDER BY s.step_id

-- name: queued_items(mission_id uuid)
SELECT s.step_id, i.item, i.job_id, s.item_count, s.shard
FROM agentq_internal.mission_step s
CROSS JOIN LATERAL (SELECT * FROM agentq.mission_item o WHERE o.step_id = s.step_id AND o.status = 'queued' OFFSET 0) i
WHERE s.mission_id = $1 AND s.status = 'queued' AND s.item_count IS NOT NULL AND NOT coalesce(s.spec ? 'mission', false)
  AND (SELECT l.job_id FROM agentq_internal.job_lease l WHERE l.job_id = i.job_id) IS NULL
ORDER BY s.step_id, i.item

-- name: step_cancel(step uuid, job uuid, why text, at timestamptz)
UPDATE agentq_internal.mission_step SET status = 'cancelled', last_error = $3, ended_at = $4
WHERE step_id = $1 AND status = 'queued' AND job_id IS NOT DISTINCT FROM $2
RETURNING step_id

-- name: item_cancel(step uuid, item int4, job uuid, why text, at timestamptz)
UPDATE agentq.mission_item SET status = 'cancelled', last_error = $4, ended_at = $5
WHERE step_id = $1 AND item = $2 AND status = 'queued' AND job_id = $3
RETURNING step_id

-- name: open_children(outer uuid)
SELECT c.mission_id
FROM agentq_internal.mission_step s
CROSS JOIN LATERAL (SELECT m.mission_id FROM agentq.mission m WHERE m.mission_id = s.child_id AND m.completed_at IS NULL OFFSET 0) c
WHERE s.mission_id = $1 AND s.status = 'queued' AND s.child_id IS NOT NULL
UNION ALL
SELECT c.mission_id
FROM agentq_internal.mission_step s
CROSS JOIN LATERAL (SELECT i.job_id FROM agentq.mission_item i WHERE i.step_id = s.step_id AND i.status = 'queued' OFFSET 0) i
CROSS JOIN LATERAL (SELECT m.mission_id FROM agentq.mission m WHERE m.mission_id = i.job_id AND m.completed_at IS NULL OFFSET 0) c
WHERE s.mission_id = $1 AND s.status = 'queued' AND s.item_count IS NOT NULL AND s.spec ? 'mission'
ORDER BY 1

-- name: held_jobs(mission_id uuid)
SELECT l.job_id
FROM agentq_internal.mission_step s
CROSS JOIN LATERAL (SELECT s.job_id WHERE s.job_id IS NOT NULL UNION ALL
                    SELECT i.job_id FROM agentq.mission_item i WHERE i.step_id = s.step_id AND i.status = 'queued') w
CROSS JOIN LATERAL (SELECT o.job_id FROM agentq_internal.job_lease o
                    WHERE o.job_id = w.job_id AND o.cancel_reason IS NULL OFFSET 0) l
WHERE s.mission_id = $1 AND s.status = 'queued'
