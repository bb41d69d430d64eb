SELECT j.job_id, j.queue_id, j.job_kind::text, j.priority::integer, j.scheduled_at, l.lease_owner::text,
       j.attempts::integer, j.max_attempts::integer,
       l.cancel_reason IS NOT NULL, CASE WHEN l.started_at IS NULL THEN 'leased' ELSE 'in_progress' END, h.executor_name
FROM agentq.queue_heartbeat h
JOIN agentq.job_lease l ON l.lease_owner = coalesce(h.lease_owner, h.executor_name)
JOIN agentq.job j ON j.job_id = l.job_id
WHERE $2 - h.last_tick_at > 2 * make_interval(secs => $1)
  AND NOT EXISTS (SELECT FROM agentq.job_lease later
                  WHERE later.lease_owner = l.lease_owner AND later.picked_at > h.last_tick_at)
LIMIT $3
FOR UPDATE OF l SKIP LOCKED
