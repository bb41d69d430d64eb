WITH due AS (
    SELECT ctid AS tid FROM agentq.job_waiting
    WHERE (scheduled_at, job_id) >= ($1, $2) AND scheduled_at <= $3
    ORDER BY scheduled_at, job_id
    LIMIT $4
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM agentq.job_waiting w USING due WHERE w.ctid = due.tid
    RETURNING w.job_id
)
INSERT INTO agentq.job_ready (queue_id, any_queue_id, job_kind, priority, scheduled_at, job_id, keyed)
SELECT j.queue_id, j.queue_id, j.job_kind, j.priority, j.scheduled_at, j.job_id, j.idempotency_key IS NOT NULL
FROM gone JOIN agentq.job j USING (job_id)
RETURNING job_id, queue_id, job_kind, priority, scheduled_at
