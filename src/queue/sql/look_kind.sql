WITH RECURSIVE level AS (
    (SELECT priority, scheduled_at, job_id FROM agentq.job_ready
     WHERE queue_id = $1 AND job_kind = $2
     ORDER BY priority, scheduled_at, job_id LIMIT 1)
    UNION ALL
    SELECT next.priority, next.scheduled_at, next.job_id
    FROM level
    CROSS JOIN LATERAL (
        SELECT r.priority, r.scheduled_at, r.job_id FROM agentq.job_ready r
        WHERE r.queue_id = $1 AND r.job_kind = $2 AND r.priority > level.priority
        ORDER BY r.priority, r.scheduled_at, r.job_id LIMIT 1) next
)
SELECT priority, scheduled_at, job_id FROM level LIMIT 17
