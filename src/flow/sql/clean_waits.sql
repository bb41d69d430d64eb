WITH seen AS MATERIALIZED (
    SELECT job_id FROM agentq.signal_wait WHERE job_id > $1 ORDER BY job_id LIMIT least($2, $3)
), old AS MATERIALIZED (
    SELECT w.job_id FROM seen JOIN agentq.signal_wait w ON w.job_id = seen.job_id
    WHERE NOT EXISTS (SELECT FROM agentq.job j WHERE j.job_id = seen.job_id)
       OR EXISTS (SELECT FROM agentq.job_done d WHERE d.job_id = seen.job_id)
    FOR UPDATE OF w SKIP LOCKED
), gone AS (
    DELETE FROM agentq.signal_wait w USING old WHERE w.job_id = old.job_id RETURNING 1
)
SELECT (SELECT count(*) FROM seen), (SELECT count(*) FROM gone), (SELECT job_id FROM seen ORDER BY job_id DESC LIMIT 1)
