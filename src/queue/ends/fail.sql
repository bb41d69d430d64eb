-- name: cancel_held(job_id uuid, now timestamptz, reason text)
WITH asked AS (
    UPDATE agentq_internal.job_lease SET cancel_reason = coalesce(nullif(cancel_reason, ''), $3, '')
    WHERE job_id = $1
    RETURNING job_id
)
UPDATE agentq_internal.job j SET updated_at = $2 FROM asked WHERE j.job_id = asked.job_id

