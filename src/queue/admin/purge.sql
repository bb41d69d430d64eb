-- name: job_purge(before timestamptz, most int8, youngest uuid)
WITH old AS (
    SELECT job_id FROM agentq_internal.job_done
    WHERE finished_at < $1 AND job_id <= $3
    ORDER BY job_id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), done AS (
    DELETE FROM agentq_internal.job_done d USING old WHERE d.job_id = old.job_id RETURNING d.job_id
), job AS (
    DELETE FROM agentq_internal.job j USING old WHERE j.job_id = old.job_id
), attempt AS (
    DELETE FROM agentq_internal.job_attempt_log a USING old WHERE a.job_id = old.job_id
), checkpoint AS (
    DELETE FROM agentq_internal.job_checkpoint c USING old WHERE c.job_id = old.job_id
)
SELECT jsonb_build_object('ok', true, 'code', 'purged', 'purged', count(*), 'more', count(*) = $2) FROM done

-- name: clean_finished(after uuid, youngest uuid, most int8, now timestamptz, keep_seconds int8)
WITH looked AS MATERIALIZED (
    SELECT job_id, finished_at FROM agentq_internal.job_done
    WHERE job_id > $1 AND job_id <= $2
    ORDER BY job_id
    LIMIT $3
), old AS MATERIALIZED (
    SELECT l.job_id
    FROM looked l
    LEFT JOIN agentq_internal.job j ON j.job_id = l.job_id
    LEFT JOIN agentq.queue q ON q.queue_id = j.queue_id
    WHERE l.finished_at < $4 - make_interval(secs => coalesce(q.keep_seconds, $5))
), locked AS MATERIALIZED (
    SELECT d.job_id FROM old JOIN agentq_internal.job_done d ON d.job_id = old.job_id
    FOR UPDATE OF d SKIP LOCKED
), done AS (
    DELETE FROM agentq_internal.job_done d USING locked WHERE d.job_id = locked.job_id RETURNING d.job_id
), job AS (
    DELETE FROM agentq_internal.job j USING locked WHERE j.job_id = locked.job_id
), attempt AS (
    DELETE FROM agentq_internal.job_attempt_log a USING locked WHERE a.job_id = locked.job_id
), checkpoint AS (
    DELETE FROM agentq_internal.job_checkpoint c USING locked WHERE c.job_id = locked.job_id
)
SELECT (SELECT count(*) FROM looked) AS looked_at, (SELECT count(*) FROM done) AS removed,
    (SELECT job_id FROM looked ORDER BY job_id DESC LIMIT 1) AS last
