-- name: given_job(job_id uuid)
SELECT q.queue, q.job_kind, q.state, j.idempotency_key IS NOT NULL AS keyed, j.requires
FROM agentq.job_queue q JOIN agentq_internal.job j ON j.job_id = q.job_id
WHERE q.job_id = $1

-- name: given_take(job_id uuid, now timestamptz)
WITH j AS (
    SELECT job_id, queue_id, job_kind, priority, scheduled_at FROM agentq_internal.job
    WHERE job_id = $1 AND scheduled_at <= $2 AND parked IS NULL
), free_ready AS MATERIALIZED (
    SELECT r.any_queue_id, r.priority, r.scheduled_at, r.job_id FROM agentq_internal.job_ready r, j
    WHERE r.any_queue_id = j.queue_id AND r.priority = j.priority AND r.scheduled_at = j.scheduled_at AND r.job_id = j.job_id
    FOR UPDATE OF r SKIP LOCKED
), free_waiting AS MATERIALIZED (
    SELECT w.scheduled_at, w.job_id FROM agentq_internal.job_waiting w, j
    WHERE w.scheduled_at = j.scheduled_at AND w.job_id = j.job_id
    FOR UPDATE OF w SKIP LOCKED
), ready AS (
    DELETE FROM agentq_internal.job_ready r USING free_ready f
    WHERE r.any_queue_id = f.any_queue_id AND r.priority = f.priority AND r.scheduled_at = f.scheduled_at AND r.job_id = f.job_id
    RETURNING r.job_id
), waiting AS (
    DELETE FROM agentq_internal.job_waiting w USING free_waiting f
    WHERE w.scheduled_at = f.scheduled_at AND w.job_id = f.job_id
    RETURNING w.job_id
)
SELECT t.was_ready, j.job_id, j.queue_id, j.job_kind::text, j.priority::integer, j.scheduled_at
FROM (SELECT job_id, true AS was_ready FROM ready UNION ALL SELECT job_id, false FROM waiting) t
JOIN j USING (job_id)

-- name: given_line(job_id uuid)
-- A job behind another with its ordering key stays there.
SELECT line FROM agentq_internal.job_line WHERE job_id = $1 AND line NOT LIKE 'order:%'
