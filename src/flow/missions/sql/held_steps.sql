SELECT step_id, children::integer, fails_mission, name, kind, executor, params, spec, job_id, shard
FROM agentq.mission_step WHERE mission_id = $1 AND status = 'waiting' AND ready_at IS NOT NULL
ORDER BY step_id
