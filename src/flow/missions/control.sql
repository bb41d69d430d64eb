-- name: mission_pause(mission_id uuid, now timestamptz, reason text)
UPDATE agentq.mission SET paused_at = $2, paused_reason = $3 WHERE mission_id = $1

-- name: mission_resume(mission_id uuid, now timestamptz)
UPDATE agentq.mission SET status = 'running', paused_at = NULL, paused_reason = NULL, started_at = coalesce(started_at, $2)
WHERE mission_id = $1

-- name: held_steps(mission_id uuid)
SELECT step_id, children::integer, fails_mission, name, kind, executor, params, spec, job_id, shard
FROM agentq_internal.mission_step WHERE mission_id = $1 AND status = 'waiting' AND ready_at IS NOT NULL
ORDER BY step_id
