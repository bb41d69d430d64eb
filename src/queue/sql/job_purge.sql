WITH old AS (
    SELECT job_id FROM agentq.job_done
    WHERE finished_at < $1 AND job_id <= $3
    ORDER BY job_id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), done AS (
    DELETE FROM agentq.job_done d USING old WHERE d.job_id = old.job_id RETURNING d.job_id
), job AS (
    DELETE FROM agentq.job j USING old WHERE j.job_id = old.job_id
), attempt AS (
    DELETE FROM agentq.job_attempt_log a USING old WHERE a.job_id = old.job_id
), checkpoint AS (
    DELETE FROM agentq.job_checkpoint c USING old WHERE c.job_id = old.job_id
)
SELECT jsonb_build_object('ok', true, 'code', 'purged', 'purged', count(*), 'more', count(*) = $2) FROM done
