WITH due AS (
    SELECT deadline_at, job_id, what FROM agentq.job_deadline
    WHERE deadline_at <= $1
    ORDER BY deadline_at, job_id, what
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM agentq.job_deadline d USING due
    WHERE d.deadline_at = due.deadline_at AND d.job_id = due.job_id AND d.what = due.what
    RETURNING d.deadline_at, d.job_id, d.what
)
SELECT g.job_id, g.deadline_at, g.what = 'start',
       EXISTS (SELECT FROM agentq.job j WHERE j.job_id = g.job_id AND (g.what = 'finish' OR j.picked_at IS NULL))
       AND NOT EXISTS (SELECT FROM agentq.job_done d WHERE d.job_id = g.job_id)
       AND (g.what = 'finish' OR NOT EXISTS (SELECT FROM agentq.job_lease l WHERE l.job_id = g.job_id))
FROM gone g
ORDER BY g.deadline_at, g.job_id
