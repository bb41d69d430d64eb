-- name: hold(job_id uuid, owner text, token uuid)
SELECT j.job_id, j.queue_id, j.job_kind::text, j.priority::integer, j.scheduled_at, l.lease_owner::text,
       j.attempts::integer, j.max_attempts::integer,
       l.cancel_reason IS NOT NULL AS cancel_requested,
       CASE WHEN l.started_at IS NULL THEN 'leased' ELSE 'in_progress' END AS state
FROM agentq_internal.job_lease l
JOIN agentq_internal.job j ON j.job_id = l.job_id
WHERE l.job_id = $1
  AND ($2 IS NULL OR l.lease_owner = $2)
  AND ($3 IS NULL OR l.lease_token = $3)
FOR UPDATE OF l
