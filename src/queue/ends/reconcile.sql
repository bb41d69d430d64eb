-- name: parked(job_id uuid)
SELECT j.attempts::integer, j.max_attempts::integer, j.last_error
FROM agentq_internal.job j WHERE j.job_id = $1 AND j.parked IS NOT NULL
  AND NOT EXISTS (SELECT FROM agentq_internal.job_done d WHERE d.job_id = j.job_id)

-- name: unpark(job_id uuid, at timestamptz, state text)
UPDATE agentq_internal.job SET parked = NULL, scheduled_at = $2, resting_state = $3 WHERE job_id = $1
