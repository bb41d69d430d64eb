SELECT j.job_id, j.queue_id, j.job_kind::text, j.priority::integer, j.scheduled_at, l.lease_owner::text,
       j.attempts::integer, j.max_attempts::integer,
       l.cancel_reason IS NOT NULL, CASE WHEN l.started_at IS NULL THEN 'leased' ELSE 'in_progress' END, l.lease_until
FROM agentq.job_lease l
JOIN agentq.job j ON j.job_id = l.job_id
WHERE l.job_id = ANY ($1) AND l.lease_until <= $2
ORDER BY l.lease_until
LIMIT $3
FOR UPDATE OF l SKIP LOCKED
