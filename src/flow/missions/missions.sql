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

-- name: mission_context(mission_id uuid)
SELECT m.trace_id, to_jsonb(m)->>'traceparent' AS traceparent, m.correlation_id, m.command_id::text
FROM agentq.mission m WHERE m.mission_id = $1

-- name: mission_status(mission_id uuid)
SELECT status FROM agentq.mission WHERE mission_id = $1
