WITH j AS (
    SELECT job_id, queue_id, priority, scheduled_at FROM agentq.job WHERE job_id = $1
), ready AS (
    SELECT r.job_id FROM agentq.job_ready r, j
    WHERE r.any_queue_id = j.queue_id AND r.priority = j.priority
      AND r.scheduled_at = j.scheduled_at AND r.job_id = j.job_id
    FOR UPDATE OF r SKIP LOCKED
), waiting AS (
    SELECT w.job_id FROM agentq.job_waiting w, j
    WHERE w.scheduled_at = j.scheduled_at AND w.job_id = j.job_id
    FOR UPDATE OF w SKIP LOCKED
), lease AS (
    SELECT l.job_id FROM agentq.job_lease l WHERE l.job_id = $1
    FOR UPDATE OF l SKIP LOCKED
)
SELECT job_id FROM ready UNION ALL SELECT job_id FROM waiting UNION ALL SELECT job_id FROM lease
