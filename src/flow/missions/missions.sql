-- name: job_hook(job_id uuid)
SELECT on_end FROM agentq_internal.job WHERE job_id = $1 AND on_end IS NOT NULL

-- name: step_mission(step uuid)
SELECT mission_id FROM agentq_internal.mission_step WHERE step_id = $1

-- name: mission_status(mission_id uuid)
SELECT status FROM agentq.mission WHERE mission_id = $1
