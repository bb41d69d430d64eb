SELECT j.job_id
FROM agentq.job j JOIN agentq.job_waiting w ON w.scheduled_at = j.scheduled_at AND w.job_id = j.job_id
WHERE j.job_id = $1 AND j.parked IS NULL AND coalesce(j.resting_state::text, 'queued') = 'queued'
  AND (j.waits_for->>'at')::timestamptz = j.scheduled_at
