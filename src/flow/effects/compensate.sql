-- name: chain_running(mission uuid, job uuid)
SELECT chain_id FROM agentq.effect_chain WHERE mission_id = $1 AND status = 'running'
UNION ALL
SELECT chain_id FROM agentq.effect_chain WHERE job_id = $2 AND status = 'running'

-- name: chain_add(chain_id uuid, mission_id uuid, job_id uuid, reason text, started_by text, started_at timestamptz)
INSERT INTO agentq.effect_chain (chain_id, mission_id, job_id, effects, reason, started_by, started_at)
VALUES ($1, $2, $3, 0, $4, $5, $6)
ON CONFLICT DO NOTHING
RETURNING chain_id

-- name: chain_remove(chain_id uuid)
DELETE FROM agentq.effect_chain WHERE chain_id = $1

-- name: chain_size(chain_id uuid, effects int4, left int4, irreversible int4)
UPDATE agentq.effect_chain SET effects = $2, unknown = $3, irreversible = $4 WHERE chain_id = $1

-- name: chain_take(chain_id uuid, ids uuid[], include_unknown bool)
WITH here AS (
    SELECT e.effect_id, e.status, e.declared_compensation,
           EXISTS (SELECT FROM agentq.effect_chain c
                   WHERE c.chain_id = e.chain_id AND c.status = 'running') AS taken
    FROM unnest($2) AS wanted(effect_id)
    JOIN agentq_internal.effect e ON e.effect_id = wanted.effect_id
), mine AS (
    UPDATE agentq_internal.effect e SET chain_id = $1
    FROM here
    WHERE e.effect_id = here.effect_id AND NOT here.taken AND here.declared_compensation IS NOT NULL
      AND (here.status IN ('succeeded', 'compensation_failed') OR (here.status = 'executing' AND $3))
    RETURNING e.effect_id
)
SELECT (SELECT count(*)::integer FROM mine) AS effects,
       (SELECT array_agg(effect_id) FROM here WHERE status = 'executing' AND NOT taken) AS unknown,
       (SELECT count(*)::integer FROM here WHERE status = 'succeeded' AND declared_compensation IS NULL) AS irreversible

-- name: lock_of_mission(mission_id uuid)
WITH RECURSIVE m (id) AS (
    SELECT $1::uuid
    UNION ALL
    SELECT c.mission_id
    FROM m JOIN agentq_internal.mission_step s ON s.mission_id = m.id
    CROSS JOIN LATERAL (SELECT i.mission_id FROM agentq.mission i WHERE i.parent_step_id = s.step_id OFFSET 0) c
)
SELECT e.effect_id
FROM m CROSS JOIN LATERAL (
    SELECT effect_id FROM agentq_internal.effect WHERE mission_id = m.id AND compensates IS NULL OFFSET 0
) f
JOIN agentq_internal.effect e ON e.effect_id = f.effect_id
ORDER BY e.seq
FOR UPDATE OF e

-- name: lock_of_job(job_id uuid)
SELECT effect_id FROM agentq_internal.effect WHERE job_id = $1 ORDER BY seq FOR UPDATE

-- name: unfinished(mission uuid, job uuid)
WITH RECURSIVE m (id) AS (
    SELECT $1::uuid
    UNION ALL
    SELECT c.mission_id
    FROM m JOIN agentq_internal.mission_step s ON s.mission_id = m.id
    CROSS JOIN LATERAL (SELECT i.mission_id FROM agentq.mission i WHERE i.parent_step_id = s.step_id OFFSET 0) c
), e (job_id) AS (
    SELECT f.job_id
    FROM m CROSS JOIN LATERAL (
        SELECT DISTINCT job_id FROM agentq_internal.effect WHERE mission_id = m.id AND compensates IS NULL OFFSET 0
    ) f
    UNION SELECT $2
)
SELECT j.job_id
FROM e JOIN agentq_internal.job j ON j.job_id = e.job_id
WHERE NOT EXISTS (SELECT FROM agentq_internal.job_done d WHERE d.job_id = j.job_id)
