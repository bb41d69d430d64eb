-- name: deadlines_due(now timestamptz, most int8, left_alone uuid[])
SELECT g.job_id, g.deadline_at, g.what = 'start' AS is_start,
       EXISTS (SELECT FROM agentq_internal.job j WHERE j.job_id = g.job_id AND (g.what = 'finish' OR j.picked_at IS NULL))
       AND NOT EXISTS (SELECT FROM agentq_internal.job_done d WHERE d.job_id = g.job_id)
       AND (g.what = 'finish' OR NOT EXISTS (SELECT FROM agentq_internal.job_lease l WHERE l.job_id = g.job_id)) AS concerns
FROM agentq_internal.job_deadline g
WHERE g.deadline_at <= $1 AND g.job_id <> ALL ($3)
ORDER BY g.deadline_at, g.job_id, g.what
LIMIT $2
FOR UPDATE OF g SKIP LOCKED

-- name: deadline_gone(at timestamptz, job_id uuid, is_start bool)
DELETE FROM agentq_internal.job_deadline WHERE deadline_at = $1 AND job_id = $2 AND what = CASE WHEN $3 THEN 'start' ELSE 'finish' END
