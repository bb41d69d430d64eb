UPDATE agentq.job_lease
SET cancel_at = coalesce(cancel_at, $2), cancel_reason = coalesce(cancel_reason, $3)
WHERE job_id = $1
