-- name: clean_steps(after uuid, jobs int4, rows int8)
WITH RECURSIVE seen AS (
    (SELECT s.job_id, 1 AS number FROM agentq_internal.job_step s WHERE s.job_id > $1 ORDER BY s.job_id LIMIT 1)
    UNION ALL
    SELECT n.job_id, seen.number + 1
    FROM seen CROSS JOIN LATERAL (
        SELECT s.job_id FROM agentq_internal.job_step s WHERE s.job_id > seen.job_id ORDER BY s.job_id LIMIT 1) n
    WHERE seen.number < $2
), old AS MATERIALIZED (
    SELECT s.ctid AS tid FROM seen JOIN agentq_internal.job_step s ON s.job_id = seen.job_id
    WHERE NOT EXISTS (SELECT FROM agentq_internal.job j WHERE j.job_id = seen.job_id)
    LIMIT $3
    FOR UPDATE OF s SKIP LOCKED
), gone AS (
    DELETE FROM agentq_internal.job_step s USING old WHERE s.ctid = old.tid RETURNING 1
)
SELECT (SELECT count(*) FROM seen) AS seen, (SELECT count(*) FROM gone) AS removed,
    (SELECT job_id FROM seen ORDER BY number DESC LIMIT 1) AS last

-- name: clean_waits(after uuid, jobs int4, rows int8)
WITH seen AS MATERIALIZED (
    SELECT job_id FROM agentq.signal_wait WHERE job_id > $1 ORDER BY job_id LIMIT least($2, $3)
), old AS MATERIALIZED (
    SELECT w.job_id FROM seen JOIN agentq.signal_wait w ON w.job_id = seen.job_id
    WHERE NOT EXISTS (SELECT FROM agentq_internal.job j WHERE j.job_id = seen.job_id)
       OR EXISTS (SELECT FROM agentq_internal.job_done d WHERE d.job_id = seen.job_id)
    FOR UPDATE OF w SKIP LOCKED
), gone AS (
    DELETE FROM agentq.signal_wait w USING old WHERE w.job_id = old.job_id RETURNING 1
)
SELECT (SELECT count(*) FROM seen) AS seen, (SELECT count(*) FROM gone) AS removed,
    (SELECT job_id FROM seen ORDER BY job_id DESC LIMIT 1) AS last

-- name: clean_channels(after_name text, after_key text, most int8)
WITH seen AS MATERIALIZED (
    SELECT name, key FROM agentq_internal.signal_channel WHERE (name, key) > ($1, $2) ORDER BY name, key LIMIT $3
), old AS MATERIALIZED (
    SELECT c.name, c.key FROM seen JOIN agentq_internal.signal_channel c ON c.name = seen.name AND c.key = seen.key
    FOR UPDATE OF c SKIP LOCKED
)
SELECT seen.name, seen.key, old.name IS NOT NULL AS locked
FROM seen LEFT JOIN old ON old.name = seen.name AND old.key = seen.key
ORDER BY seen.name, seen.key

-- name: signals_unwoken(most int8)
SELECT signal_id, taken_by FROM agentq.signal WHERE wake_pending ORDER BY signal_id LIMIT $1 FOR UPDATE SKIP LOCKED

-- name: signal_woken(signal uuid)
UPDATE agentq.signal SET wake_pending = false WHERE signal_id = $1
