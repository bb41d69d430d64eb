WITH j AS (
    SELECT jobs.job_queue_id, jobs.priority, jobs.run_at, jobs.id
    FROM graphile_worker._private_jobs AS jobs
    WHERE jobs.is_available = true
        AND run_at <= now()
        AND task_id = ANY ('{1}'::int[])
        AND (
            jobs.job_queue_id IS NULL
            OR jobs.job_queue_id IN (
                SELECT id
                FROM graphile_worker._private_job_queues AS job_queues
                WHERE job_queues.is_available = true
                FOR UPDATE SKIP LOCKED
            )
        )
    ORDER BY priority ASC, run_at ASC
    LIMIT 50
    FOR UPDATE SKIP LOCKED
), q AS (
    UPDATE graphile_worker._private_job_queues AS job_queues
    SET locked_by = 'w'::text, locked_at = now()
    FROM j
    WHERE job_queues.id = j.job_queue_id
), taken AS (
    UPDATE graphile_worker._private_jobs AS jobs
    SET attempts = jobs.attempts + 1, locked_by = 'w'::text, locked_at = now()
    FROM j
    WHERE jobs.id = j.id
    RETURNING jobs.id, jobs.payload
)
SELECT (count(*) > 0)::int AS found, array_agg(id) AS ids, json_agg(payload) AS work FROM taken \gset
\if :found
DELETE FROM graphile_worker._private_jobs AS jobs
USING unnest(:ids::bigint[]) n(n)
WHERE id = n;
\endif
