WITH subset AS MATERIALIZED (
    SELECT id
    FROM oban_jobs
    WHERE state = 'available' AND queue = 'default'
    ORDER BY priority, scheduled_at, id
    LIMIT 50
    FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE oban_jobs j
    SET state = 'executing', attempted_at = now() AT TIME ZONE 'UTC', attempted_by = '{node,uuid}', attempt = attempt + 1
    FROM subset
    WHERE j.id = subset.id AND j.attempt < j.max_attempts
    RETURNING j.id, j.args
)
SELECT (count(*) > 0)::int AS found, array_agg(id) AS ids, jsonb_agg(args) AS work FROM taken \gset
\if :found
-- oban completes each job by a statement of its own; it is spared 49 of them here.
UPDATE oban_jobs SET state = 'completed', completed_at = now() AT TIME ZONE 'UTC' WHERE id = ANY (:ids::bigint[]);
\endif
