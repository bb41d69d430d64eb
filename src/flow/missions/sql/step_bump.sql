UPDATE agentq.mission_step
SET pending = pending - $2,
    met = met + $3,
    status = CASE WHEN met + $3 >= need AND spec IS NULL AND executor IS NULL THEN 'queued' ELSE 'waiting' END,
    job_id = CASE WHEN met + $3 >= need AND spec IS NULL AND executor IS NULL THEN $4 END,
    queued_at = CASE WHEN met + $3 >= need AND spec IS NULL AND executor IS NULL THEN $5 END,
    shard = $6
WHERE step_id = $1 AND status = 'waiting' AND ready_at IS NULL
RETURNING step_id, children::integer, fails_mission, name, kind, executor, params, spec, job_id, shard,
    need::integer, met::integer, pending::integer
