-- name: deadlines_due(now timestamptz, most int8)
SELECT g.job_id, g.deadline_at, g.what = 'start' AS is_start,
       EXISTS (SELECT FROM agentq_internal.job j WHERE j.job_id = g.job_id AND (g.what = 'finish' OR j.picked_at IS NULL))
       AND NOT EXISTS (SELECT FROM agentq_internal.job_done d WHERE d.job_id = g.job_id)
       AND (g.what = 'finish' OR NOT EXISTS (SELECT FROM agentq_internal.job_lease l WHERE l.job_id = g.job_id)) AS concerns
FROM agentq_internal.job_deadline g
WHERE g.deadline_at <= $1
ORDER BY g.deadline_at, g.job_id, g.what
LIMIT $2
FOR UPDATE OF g SKIP LOCKED

-- name: deadline_gone(at timestamptz, job_id uuid, is_start bool)
DELETE FROM agentq_internal.job_deadline WHERE deadline_at = $1 AND job_id = $2 AND what = CASE WHEN $3 THEN 'start' ELSE 'finish' END

-- name: lock_free(job_id uuid)
WITH j AS (
    SELECT job_id, queue_id, priority, scheduled_at FROM agentq_internal.job WHERE job_id = $1
), ready AS (
    SELECT r.job_id FROM agentq_internal.job_ready r, j
    WHERE r.any_queue_id = j.queue_id AND r.priority = j.priority
      AND r.scheduled_at = j.scheduled_at AND r.job_id = j.job_id
    FOR UPDATE OF r SKIP LOCKED
), waiting AS (
    SELECT w.job_id FROM agentq_internal.job_waiting w, j
    WHERE w.scheduled_at = j.scheduled_at AND w.job_id = j.job_id
    FOR UPDATE OF w SKIP LOCKED
), lease AS (
    SELECT l.job_id FROM agentq_internal.job_lease l WHERE l.job_id = $1
    FOR UPDATE OF l SKIP LOCKED
)
SELECT job_id FROM ready UNION ALL SELECT job_id FROM waiting UNION ALL SELECT job_id FROM lease
