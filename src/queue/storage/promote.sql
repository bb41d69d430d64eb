-- name: take_due(from_at timestamptz, from_id uuid, now_at timestamptz, most int8)
WITH due AS (
    SELECT ctid AS tid FROM agentq_internal.job_waiting
    WHERE (scheduled_at, job_id) >= ($1, $2) AND scheduled_at <= $3
    ORDER BY scheduled_at, job_id
    LIMIT $4
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM agentq_internal.job_waiting w USING due WHERE w.ctid = due.tid
    RETURNING w.job_id
)
SELECT j.job_id, j.queue_id, j.job_kind::text, j.priority::integer, j.scheduled_at, j.idempotency_key IS NOT NULL AS keyed,
       j.requires, j.fairness_key
FROM gone JOIN agentq_internal.job j USING (job_id)

-- name: take_best_due(from_at timestamptz, from_id uuid, now_at timestamptz, most int8, queues int4[], kinds text[])
WITH due AS MATERIALIZED (
    SELECT w.tid
    FROM (SELECT ctid AS tid, scheduled_at, job_id FROM agentq_internal.job_waiting
          WHERE (scheduled_at, job_id) >= ($1, $2) AND scheduled_at <= $3
          ORDER BY scheduled_at, job_id
          LIMIT 1000) w
    JOIN agentq_internal.job j ON j.job_id = w.job_id
    WHERE j.queue_id = ANY ($5) AND ($6 IS NULL OR j.job_kind = ANY ($6))
    ORDER BY j.priority, w.scheduled_at, w.job_id
), best AS (
    SELECT w.ctid AS tid
    FROM due JOIN agentq_internal.job_waiting w ON w.ctid = due.tid
    LIMIT $4
    FOR UPDATE OF w SKIP LOCKED
), gone AS (
    DELETE FROM agentq_internal.job_waiting w USING best WHERE w.ctid = best.tid
    RETURNING w.job_id
)
SELECT j.job_id, j.queue_id, j.job_kind::text, j.priority::integer, j.scheduled_at, j.idempotency_key IS NOT NULL AS keyed,
       j.requires, j.fairness_key
FROM gone JOIN agentq_internal.job j USING (job_id)

-- name: next_due(from_at timestamptz, from_id uuid)
SELECT scheduled_at, job_id FROM agentq_internal.job_waiting
WHERE (scheduled_at, job_id) >= ($1, $2)
ORDER BY scheduled_at, job_id
LIMIT 1
