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
SELECT j.job_id, j.queue_id, j.job_kind::text, j.priority::integer, j.scheduled_at, j.idempotency_key IS NOT NULL, j.requires, j.fairness_key
FROM gone JOIN agentq.job j USING (job_id)
