SELECT j.attempts::integer, j.max_attempts::integer, j.last_error
FROM agentq.job j WHERE j.job_id = $1 AND j.parked IS NOT NULL
  AND NOT EXISTS (SELECT FROM agentq.job_done d WHERE d.job_id = j.job_id)
