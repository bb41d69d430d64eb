UPDATE agentq.job_lease
SET started_at = coalesce(started_at, $4)
WHERE job_id = $1 AND lease_owner = $2 AND ($3 IS NULL OR lease_token = $3)
RETURNING jsonb_build_object('ok', true, 'code', 'started', 'job_id', job_id, 'state', 'in_progress',
    'lease_until', lease_until, 'cancel_requested', cancel_reason IS NOT NULL)
