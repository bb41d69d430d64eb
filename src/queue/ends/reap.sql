-- name: reap_stale(threshold_seconds int4, now timestamptz, most int8)
SELECT j.job_id, j.queue_id, j.job_kind::text, j.priority::integer, j.scheduled_at, l.lease_owner::text,
       j.attempts::integer, j.max_attempts::integer,
       l.cancel_reason IS NOT NULL AS cancel_requested,
       CASE WHEN l.started_at IS NULL THEN 'leased' ELSE 'in_progress' END AS state, h.executor_name
FROM agentq.queue_heartbeat h
JOIN agentq_internal.job_lease l ON l.lease_owner = coalesce(h.lease_owner, h.executor_name)
JOIN agentq_internal.job j ON j.job_id = l.job_id
WHERE $2 - h.last_tick_at > 2 * make_interval(secs => $1)
  AND NOT EXISTS (SELECT FROM agentq_internal.job_lease later
                  WHERE later.lease_owner = l.lease_owner AND later.picked_at > h.last_tick_at)
LIMIT $3
FOR UPDATE OF l SKIP LOCKED

-- name: reap_stalled(jobs uuid[], now timestamptz, most int8)
SELECT j.job_id, j.queue_id, j.job_kind::text, j.priority::integer, j.scheduled_at, l.lease_owner::text,
       j.attempts::integer, j.max_attempts::integer,
       l.cancel_reason IS NOT NULL AS cancel_requested,
       CASE WHEN l.started_at IS NULL THEN 'leased' ELSE 'in_progress' END AS state, l.stall_seconds
FROM agentq_internal.job_lease l
JOIN agentq_internal.job j ON j.job_id = l.job_id
WHERE l.job_id = ANY ($1) AND greatest(l.picked_at, l.started_at) + make_interval(secs => l.stall_seconds) <= $2
ORDER BY l.job_id
LIMIT $3
FOR UPDATE OF l SKIP LOCKED

-- before: reap_stalled(jobs uuid[], now timestamptz, most int8)
SELECT NULL WHERE $1 IS NULL AND $2 IS NULL AND $3 IS NULL

-- name: reap_facts(job_id uuid, progress timestamptz)
SELECT j.external_effects IS TRUE AS external_effects,
       (SELECT count(*) FROM agentq_internal.job_attempt_log a
        WHERE a.job_id = j.job_id AND (a.outcome = 'lease_expired' OR a.error_class = 'worker_died')
          AND ($2 IS NULL OR a.ended_at > $2)
          AND NOT EXISTS (SELECT FROM agentq_internal.job_attempt_log b
                          WHERE b.job_id = a.job_id AND b.ended_at > a.ended_at
                            AND b.outcome <> 'lease_expired' AND b.error_class IS DISTINCT FROM 'worker_died')) AS silent_before
FROM agentq_internal.job j WHERE j.job_id = $1

-- name: park(job_id uuid, reason text)
UPDATE agentq_internal.job SET parked = $2 WHERE job_id = $1

-- name: reap(expired uuid[], now timestamptz, most int8)
SELECT j.job_id, j.queue_id, j.job_kind::text, j.priority::integer, j.scheduled_at, l.lease_owner::text,
       j.attempts::integer, j.max_attempts::integer,
       l.cancel_reason IS NOT NULL AS cancel_requested,
       CASE WHEN l.started_at IS NULL THEN 'leased' ELSE 'in_progress' END AS state, l.lease_until
FROM agentq_internal.job_lease l
JOIN agentq_internal.job j ON j.job_id = l.job_id
WHERE l.job_id = ANY ($1) AND l.lease_until <= $2
ORDER BY l.lease_until
LIMIT $3
FOR UPDATE OF l SKIP LOCKED

-- name: reap_unmoved(hook text, since timestamptz, most int8)
SELECT j.job_id, j.queue_id, j.job_kind::text, j.priority::integer, j.scheduled_at, l.lease_owner::text,
       j.attempts::integer, j.max_attempts::integer,
       l.cancel_reason IS NOT NULL AS cancel_requested,
       CASE WHEN l.started_at IS NULL THEN 'leased' ELSE 'in_progress' END AS state
FROM agentq_internal.job_lease l
JOIN agentq_internal.job j ON j.job_id = l.job_id
WHERE starts_with(j.on_end, $1 || ':') AND greatest(l.picked_at, l.started_at) <= $2
ORDER BY l.job_id
LIMIT $3
FOR UPDATE OF l SKIP LOCKED
