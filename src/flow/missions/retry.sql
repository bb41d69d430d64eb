-- name: retry_steps(mission_id uuid)
SELECT step_id, name, status::text, fails_mission FROM agentq_internal.mission_step WHERE mission_id = $1 ORDER BY level, step_id FOR UPDATE

-- name: retry_reset(steps uuid[])
WITH items AS (
    DELETE FROM agentq.mission_item WHERE step_id = ANY ($1)
)
UPDATE agentq_internal.mission_step
SET status = 'waiting', job_id = NULL, child_id = NULL, item_count = NULL, ready_at = NULL, queued_at = NULL, ended_at = NULL, last_error = NULL,
    result = NULL, shard = 0
WHERE step_id = ANY ($1)

-- name: retry_under_way(step uuid)
UPDATE agentq_internal.mission_step SET status = 'queued', ended_at = NULL, last_error = NULL, result = NULL, shard = 0 WHERE step_id = $1

-- name: retry_counters(steps uuid[])
-- Counts anew what has ended before them.
UPDATE agentq_internal.mission_step s
SET pending = c.pending, met = c.met
FROM (
    SELECT w.step_id, count(e.parent_id) FILTER (WHERE p.ended_at IS NULL) AS pending,
           count(e.parent_id) FILTER (WHERE p.ended_at IS NOT NULL AND (e.required = 'ended' OR e.required = p.status)) AS met
    FROM unnest($1) AS w (step_id)
    LEFT JOIN agentq_internal.mission_edge e ON e.child_id = w.step_id
    LEFT JOIN agentq_internal.mission_step p ON p.step_id = e.parent_id
    GROUP BY w.step_id
) c
WHERE s.step_id = c.step_id

-- name: retry_mission(mission_id uuid, now timestamptz)
-- It has as much time again as it had.
UPDATE agentq.mission
SET status = 'running', completed_at = NULL, last_error = NULL, failed_step = NULL, updated_at = $2, outcome = NULL,
    deadline_at = $2 + (deadline_at - created_at)
WHERE mission_id = $1

-- before: retry_mission(mission_id uuid, now timestamptz)
UPDATE agentq.mission
SET status = 'running', completed_at = NULL, last_error = NULL, failed_step = NULL, deadline_at = $2 + (deadline_at - created_at)
WHERE mission_id = $1

-- name: retry_chain(mission_id uuid)
SELECT chain_id FROM agentq.effect_chain WHERE mission_id = $1 LIMIT 1

-- name: retry_outer(step uuid, mission_id uuid)
SELECT s.mission_id, i.item, s.item_count
FROM agentq_internal.mission_step s LEFT JOIN agentq.mission_item i ON i.step_id = s.step_id AND i.job_id = $2
WHERE s.step_id = $1 AND (s.child_id = $2 OR i.job_id = $2)

-- name: retry_item(step uuid, item int4)
UPDATE agentq.mission_item SET status = 'queued', ended_at = NULL, last_error = NULL, result = NULL WHERE step_id = $1 AND item = $2

-- name: retry_ready(mission_id uuid)
SELECT step_id, children::integer, fails_mission, name, kind, executor, params, spec, job_id, shard, need::integer, met::integer,
       pending::integer
FROM agentq_internal.mission_step WHERE mission_id = $1 AND status = 'waiting' ORDER BY level, step_id
