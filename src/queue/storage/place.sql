-- name: enter_ready(queue_id int4, kind text, priority int4, at timestamptz, job_id uuid)
INSERT INTO agentq_internal.job_ready (queue_id, any_queue_id, job_kind, priority, scheduled_at, job_id, keyed)
SELECT $1, $1, $2, $3, $4, $5, idempotency_key IS NOT NULL FROM agentq_internal.job WHERE job_id = $5

-- name: enter_waiting(scheduled_at timestamptz, job_id uuid)
INSERT INTO agentq_internal.job_waiting (scheduled_at, job_id) VALUES ($1, $2)

-- name: take_resting(job_id uuid)
WITH j AS (
    SELECT job_id, queue_id, job_kind, priority, scheduled_at FROM agentq_internal.job WHERE job_id = $1
), ready AS (
    DELETE FROM agentq_internal.job_ready r USING j
    WHERE r.any_queue_id = j.queue_id AND r.priority = j.priority
      AND r.scheduled_at = j.scheduled_at AND r.job_id = j.job_id
    RETURNING r.job_id
), waiting AS (
    DELETE FROM agentq_internal.job_waiting w USING j
    WHERE w.scheduled_at = j.scheduled_at AND w.job_id = j.job_id
    RETURNING w.job_id
)
SELECT t.was_ready, j.job_id, j.queue_id, j.job_kind::text, j.priority::integer, j.scheduled_at
FROM (SELECT job_id, true AS was_ready FROM ready UNION ALL SELECT job_id, false FROM waiting) t
JOIN j USING (job_id)

-- name: enter_line(job_id uuid, line text)
INSERT INTO agentq_internal.job_line (queue_id, any_queue_id, job_kind, priority, scheduled_at, job_id, keyed, line)
SELECT queue_id, queue_id, job_kind, priority, scheduled_at, job_id, idempotency_key IS NOT NULL, $2
FROM agentq_internal.job WHERE job_id = $1
