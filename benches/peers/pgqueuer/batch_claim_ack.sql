WITH available AS (
    SELECT UNNEST('{k}'::text[]) AS entrypoint
), next_queued AS (
    SELECT job.id, job.priority
    FROM available
    CROSS JOIN LATERAL (
        SELECT candidate.id, candidate.priority
        FROM pgqueuer candidate
        WHERE candidate.entrypoint = available.entrypoint
            AND candidate.status = 'queued'
            AND candidate.execute_after < NOW()
        ORDER BY candidate.priority DESC, candidate.id ASC
        LIMIT 50
        FOR UPDATE SKIP LOCKED
    ) job
    ORDER BY job.priority DESC, job.id ASC
    LIMIT 50
), next_stale AS (
    SELECT stale.id, stale.priority
    FROM pgqueuer stale
    WHERE stale.status = 'picked'
        AND stale.entrypoint = ANY ('{k}')
        AND stale.heartbeat < NOW() - '00:00:30'::interval
        AND stale.execute_after < NOW()
    ORDER BY stale.priority DESC, stale.id ASC
    FOR UPDATE SKIP LOCKED
    LIMIT 50
), eligible AS (
    SELECT id FROM (
        SELECT id, priority FROM next_queued
        UNION ALL
        SELECT id, priority FROM next_stale
    ) combined
    ORDER BY priority DESC, id ASC
    LIMIT 50
), claimed AS (
    UPDATE pgqueuer
    SET status = 'picked', updated = NOW(), heartbeat = NOW(),
        queue_manager_id = '4c71d193-c72b-438d-b0ee-fdccbf4ecaa2'
    WHERE id IN (SELECT id FROM eligible)
    RETURNING *
), log_pick AS (
    INSERT INTO pgqueuer_log (job_id, status, entrypoint, priority)
    SELECT id, status, entrypoint, priority FROM claimed
)
SELECT (count(*) > 0)::int AS found, array_agg(id ORDER BY priority DESC, id ASC) AS ids,
    array_agg('successful'::text) AS statuses, array_agg(NULL::text) AS tracebacks,
    json_agg(convert_from(payload, 'UTF8')::json) AS work
FROM claimed \gset
\if :found
WITH job_status AS (
    SELECT
        UNNEST(:ids::bigint[]) AS id,
        UNNEST(:statuses::pgqueuer_status[]) AS status,
        UNNEST(:tracebacks::jsonb[]) AS traceback
), deleted AS (
    DELETE FROM pgqueuer
    WHERE id = ANY (SELECT js.id FROM job_status js WHERE js.status != 'failed')
    RETURNING id, entrypoint, priority
), held AS (
    UPDATE pgqueuer
    SET status = 'failed', updated = NOW(), queue_manager_id = NULL
    WHERE id = ANY (SELECT js.id FROM job_status js WHERE js.status = 'failed')
    RETURNING id, entrypoint, priority
), all_resolved AS (
    SELECT id, entrypoint, priority FROM deleted
    UNION ALL
    SELECT id, entrypoint, priority FROM held
), merged AS (
    SELECT
        job_status.id AS id,
        job_status.status AS status,
        job_status.traceback AS traceback,
        all_resolved.entrypoint AS entrypoint,
        all_resolved.priority AS priority
    FROM job_status
    INNER JOIN all_resolved ON all_resolved.id = job_status.id
)
INSERT INTO pgqueuer_log (job_id, status, entrypoint, priority, traceback)
SELECT id, status, entrypoint, priority, traceback FROM merged;
\endif
