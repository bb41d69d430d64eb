DELETE FROM agentq.signal_wait w
USING (
    SELECT job_id FROM agentq.signal_wait WHERE name = $1 AND key = $2 ORDER BY registered_at, job_id LIMIT 1
) oldest
WHERE w.job_id = oldest.job_id
RETURNING w.job_id, w.step, w.occurrence,
    EXISTS (SELECT FROM agentq.job j WHERE j.job_id = w.job_id)
    AND NOT EXISTS (SELECT FROM agentq.job_done d WHERE d.job_id = w.job_id)
