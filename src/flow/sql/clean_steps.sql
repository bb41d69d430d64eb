WITH RECURSIVE seen AS (
    (SELECT s.job_id, 1 AS number FROM agentq.job_step s WHERE s.job_id > $1 ORDER BY s.job_id LIMIT 1)
    UNION ALL
    SELECT n.job_id, seen.number + 1
    FROM seen CROSS JOIN LATERAL (
        SELECT s.job_id FROM agentq.job_step s WHERE s.job_id > seen.job_id ORDER BY s.job_id LIMIT 1) n
    WHERE seen.number < $2
), old AS MATERIALIZED (
    SELECT s.ctid AS tid FROM seen JOIN agentq.job_step s ON s.job_id = seen.job_id
    WHERE NOT EXISTS (SELECT FROM agentq.job j WHERE j.job_id = seen.job_id)
    LIMIT $3
    FOR UPDATE OF s SKIP LOCKED
), gone AS (
    DELETE FROM agentq.job_step s USING old WHERE s.ctid = old.tid RETURNING 1
)
SELECT (SELECT count(*) FROM seen), (SELECT count(*) FROM gone), (SELECT job_id FROM seen ORDER BY number DESC LIMIT 1)
