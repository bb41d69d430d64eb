-- name: job_hook(job_id uuid)
SELECT on_end FROM agentq_internal.job WHERE job_id = $1 AND on_end IS NOT NULL

-- name: step_mission(step uuid)
SELECT mission_id FROM agentq_internal.mission_step WHERE step_id = $1

-- name: mission_shown(mission_id uuid)
-- As v_mission shows it: nobody works at a mission before a worker has claimed one of its steps.
SELECT CASE WHEN m.status = 'running' AND agentq_internal.fn_mission_begun_at($1) IS NULL
             AND NOT EXISTS (SELECT FROM agentq_internal.mission_step s
                             WHERE s.mission_id = $1 AND s.ended_at IS NOT NULL AND s.taken_from IS NULL)
            THEN 'approved' ELSE m.status END
FROM agentq.mission m WHERE m.mission_id = $1

-- before: mission_shown(mission_id uuid)
SELECT m.status FROM agentq.mission m WHERE m.mission_id = $1

-- name: mission_fresh(mission_id uuid)
-- As mission_shown, of a mission that this transaction has started: nobody can have claimed a job of it. Missions inside it may
-- have begun with a step without a worker, so that they are asked.
SELECT CASE WHEN m.status <> 'running' THEN m.status
            WHEN s.has_begun OR (s.has_inner AND agentq_internal.fn_mission_begun_at($1) IS NOT NULL) THEN m.status
            ELSE 'approved' END
FROM agentq.mission m
CROSS JOIN LATERAL (
    SELECT coalesce(bool_or(o.ended_at IS NOT NULL AND o.taken_from IS NULL
               OR o.status = 'queued' AND num_nonnulls(o.job_id, o.item_count, o.child_id) = 0), false) AS has_begun,
           coalesce(bool_or(o.child_id IS NOT NULL OR o.item_count IS NOT NULL), false) AS has_inner
    FROM agentq_internal.mission_step o WHERE o.mission_id = $1 AND o.status <> 'waiting') s
WHERE m.mission_id = $1

-- before: mission_fresh(mission_id uuid)
SELECT m.status AS fresh FROM agentq.mission m WHERE m.mission_id = $1

-- name: mission_context(mission_id uuid)
SELECT m.trace_id, to_jsonb(m)->>'traceparent' AS traceparent, m.correlation_id, m.command_id::text
FROM agentq.mission m WHERE m.mission_id = $1

-- name: mission_status(mission_id uuid)
SELECT status FROM agentq.mission WHERE mission_id = $1
