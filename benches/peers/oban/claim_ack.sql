WITH subset AS MATERIALIZED (
    SELECT id
    FROM oban_jobs
    WHERE state = 'available' AND queue = 'default'
    ORDER BY priority, scheduled_at, id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE oban_jobs j
    SET state = 'executing', attempted_at = now() AT TIME ZONE 'UTC', attempted_by = '{node,uuid}', attempt = attempt + 1
    FROM subset
    WHERE j.id = subset.id AND j.attempt < j.max_attempts
    RETURNING j.id, j.args
)
SELECT count(*) AS found, max(id) AS id, max(args::text) AS work FROM taken \gset
\if :found
UPDATE oban_jobs SET state = 'completed', completed_at = now() AT TIME ZONE 'UTC' WHERE id = :id::bigint;
\endif
