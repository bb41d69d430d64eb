-- name: fork_mission(mission_id uuid)
SELECT template, title, source, correlation_id, trace_id, input, policy_snapshot, command_id
FROM agentq.mission WHERE mission_id = $1

-- name: fork_steps(mission_id uuid)
SELECT position, step_id, status::text, fails_mission, result, last_error FROM agentq_internal.mission_step WHERE mission_id = $1
