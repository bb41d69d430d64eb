WITH j AS (
    SELECT job_id, queue_id, job_kind, priority, scheduled_at FROM agentq.job WHERE job_id = $1
), ready AS (
    DELETE FROM agentq.job_ready r USING j
    WHERE r.any_queue_id = j.queue_id AND r.priority = j.priority
      AND r.scheduled_at = j.scheduled_at AND r.job_id = j.job_id
    RETURNING r.job_id
), waiting AS (
    DELETE FROM agentq.job_waiting w USING j
    WHERE w.scheduled_at = j.scheduled_at AND w.job_id = j.job_id
    RETURNING w.job_id
)
SELECT t.was_ready, j.job_id, j.queue_id, j.job_kind::text, j.priority::integer, j.scheduled_at
FROM (SELECT job_id, true AS was_ready FROM ready UNION ALL SELECT job_id, false FROM waiting) t
JOIN j USING (job_id)
