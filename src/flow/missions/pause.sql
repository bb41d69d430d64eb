-- name: mission_pause(mission_id uuid, now timestamptz, reason text, paused_with uuid)
UPDATE agentq.mission SET paused_at = coalesce(paused_at, $2), paused_reason = coalesce(paused_reason, $3), updated_at = $2, paused_with = $4
WHERE mission_id = $1

-- before: mission_pause(mission_id uuid, now timestamptz, reason text, paused_with uuid)
UPDATE agentq.mission SET paused_at = $2, paused_reason = $3 WHERE mission_id = $1 AND num_nulls($4) >= 0

-- name: mission_resume(mission_id uuid, now timestamptz)
UPDATE agentq.mission SET status = 'running', paused_at = NULL, paused_reason = NULL, started_at = coalesce(started_at, $2), updated_at = $2
WHERE mission_id = $1

-- before: mission_resume(mission_id uuid, now timestamptz)
UPDATE agentq.mission SET status = 'running', paused_at = NULL, paused_reason = NULL, started_at = coalesce(started_at, $2)
WHERE mission_id = $1

-- name: held_steps(mission_id uuid)
SELECT step_id, children::integer, fails_mission, name, kind, executor, params, spec, job_id, shard
FROM agentq_internal.mission_step WHERE mission_id = $1 AND status = 'waiting' AND ready_at IS NOT NULL
ORDER BY step_id

-- name: paused_with(mission_id uuid)
SELECT mission_id FROM agentq.mission WHERE paused_with = $1 AND mission_id <> $1 ORDER BY depth DESC, mission_id

-- before: paused_with(mission_id uuid)
SELECT NULL::uuid WHERE num_nulls($1) < 0

-- name: free_jobs(mission_id uuid)
SELECT w.job_id
FROM agentq_internal.mission_step s
CROSS JOIN LATERAL (SELECT s.job_id WHERE s.job_id IS NOT NULL UNION ALL
                    SELECT i.job_id FROM agentq.mission_item i WHERE i.step_id = s.step_id AND i.status = 'queued') w
WHERE s.mission_id = $1 AND s.status = 'queued'
  AND (SELECT l.job_id FROM agentq_internal.job_lease l WHERE l.job_id = w.job_id) IS NULL
ORDER BY w.job_id

-- name: jobs_held(mission_id uuid, gate text)
SELECT j.job_id
FROM agentq_internal.mission_step s
CROSS JOIN LATERAL (SELECT s.job_id WHERE s.job_id IS NOT NULL UNION ALL
                    SELECT i.job_id FROM agentq.mission_item i WHERE i.step_id = s.step_id AND i.status = 'queued') w
CROSS JOIN LATERAL (SELECT o.job_id FROM agentq_internal.job o
                    WHERE o.job_id = w.job_id AND o.waits_for->>'gate' = $2 AND (o.waits_for->>'at')::timestamptz = o.scheduled_at OFFSET 0) j
WHERE s.mission_id = $1 AND s.status = 'queued'
LIMIT 1

-- name: mission_released(mission_id uuid)
UPDATE agentq.mission SET paused_with = NULL WHERE mission_id = $1

-- before: mission_released(mission_id uuid)
SELECT NULL::uuid AS released WHERE num_nulls($1) < 0

-- name: missed_inner(after uuid, most int8)
-- Those that somebody has resumed since then are left alone.
SELECT c.mission_id AS inner, m.paused_with AS root
FROM (SELECT * FROM agentq.mission o WHERE o.paused_with IS NOT NULL AND o.paused_at IS NOT NULL AND o.mission_id > $1
      ORDER BY o.mission_id LIMIT $2) m
JOIN agentq_internal.mission_step s ON s.mission_id = m.mission_id AND s.status = 'queued'
CROSS JOIN LATERAL (SELECT * FROM agentq.mission i WHERE i.parent_step_id = s.step_id AND i.status = 'running' AND i.paused_at IS NULL
                    AND coalesce(i.updated_at, i.created_at) <= m.paused_at OFFSET 0) c
ORDER BY c.depth DESC, c.mission_id

-- before: missed_inner(after uuid, most int8)
SELECT NULL::uuid AS inner, NULL::uuid AS root WHERE num_nulls($1, $2) < 0

-- name: missions_held(after uuid, most int8)
SELECT mission_id, paused_at IS NOT NULL AS is_paused FROM agentq.mission
WHERE paused_with IS NOT NULL AND mission_id > $1 ORDER BY mission_id LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED

-- before: missions_held(after uuid, most int8)
SELECT NULL::uuid AS mission_id, false AS is_paused WHERE num_nulls($1, $2) < 0
