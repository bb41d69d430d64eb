WITH oldest AS MATERIALIZED (
    SELECT job_id FROM agentq.signal_wait WHERE name = $1 AND key = $2 ORDER BY registered_at, job_id LIMIT 1
    FOR UPDATE SKIP LOCKED
)
DELETE FROM agentq.signal_wait w
USING oldest
WHERE w.job_id = oldest.job_id AND w.name = $1 AND w.key = $2
RETURNING w.job_id, w.step, w.occurrence,
    EXISTS (SELECT FROM agentq.job j WHERE j.job_id = w.job_id)
    AND NOT EXISTS (SELECT FROM agentq.job_done d WHERE d.job_id = w.job_id)
