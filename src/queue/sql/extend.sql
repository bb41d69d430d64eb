UPDATE agentq.job_lease l
SET lease_until = greatest(l.lease_until, $4 + make_interval(secs => coalesce($5, q.lease_seconds, $6)))
FROM agentq.job j
JOIN agentq.queue q ON q.queue_id = j.queue_id
WHERE l.job_id = $1 AND l.lease_owner = $2 AND ($3 IS NULL OR l.lease_token = $3) AND j.job_id = l.job_id
RETURNING jsonb_build_object('ok', true, 'code', 'extended', 'job_id', l.job_id, 'lease_until', l.lease_until,
    'cancel_requested', l.cancel_reason IS NOT NULL, 'cancel_reason', nullif(l.cancel_reason, ''))
