-- name: pending(key text, most int8) freely
-- Counts no further than `most` in each place: nobody needs to know more.
SELECT agentq_internal.fn_limit_pending($1, $2) AS waiting,
       coalesce((SELECT (sum(m.finished) / nullif(sum(m.seconds), 0))::double precision
                 FROM (SELECT sum(finished) AS finished, max(period_seconds) AS seconds FROM agentq.metric
                       WHERE taken_at > agentq.fn_clock_now() - interval '5 minutes' GROUP BY taken_at) m), 0) AS per_second

-- before: pending(key text, most int8) freely
-- Counts no further than `most` in each place: nobody needs to know more.
SELECT coalesce(CASE
           WHEN $1 = 'global' THEN (SELECT count(*) FROM (SELECT FROM agentq_internal.job_ready LIMIT $2) p)
               + (SELECT count(*) FROM (SELECT FROM agentq_internal.job_waiting LIMIT $2) p)
               + (SELECT count(*) FROM (SELECT FROM agentq_internal.job_line LIMIT $2) p)
           WHEN $1 LIKE 'queue:%' THEN (
               SELECT (SELECT count(*) FROM (SELECT FROM agentq_internal.job_ready r WHERE r.any_queue_id = q.queue_id LIMIT $2) p)
                   + (SELECT count(*) FROM (SELECT FROM agentq_internal.job_line b WHERE b.any_queue_id = q.queue_id LIMIT $2) p)
                   + (SELECT count(*) FROM (SELECT FROM agentq_internal.job_waiting w JOIN agentq_internal.job j ON j.job_id = w.job_id
                                            WHERE j.queue_id = q.queue_id LIMIT $2) p)
               FROM agentq.queue q WHERE q.queue = substr($1, 7))
           WHEN $1 LIKE 'kind:%' THEN (SELECT count(*) FROM (SELECT FROM agentq_internal.job_ready r WHERE r.job_kind = substr($1, 6) LIMIT $2) p)
               + (SELECT count(*) FROM (SELECT FROM agentq_internal.job_line b WHERE b.job_kind = substr($1, 6) LIMIT $2) p)
               + (SELECT count(*) FROM (SELECT FROM agentq_internal.job_waiting w JOIN agentq_internal.job j ON j.job_id = w.job_id
                                        WHERE j.job_kind = substr($1, 6) LIMIT $2) p)
           ELSE (SELECT count(*) FROM (
                     SELECT FROM (SELECT job_id FROM agentq_internal.job_ready UNION ALL SELECT job_id FROM agentq_internal.job_waiting
                                  UNION ALL SELECT job_id FROM agentq_internal.job_line) p
                     JOIN agentq_internal.job j ON j.job_id = p.job_id WHERE $1 = ANY (j.limit_keys) LIMIT $2) p)
           END, 0)::bigint AS waiting,
       coalesce((SELECT (sum(m.finished) / nullif(sum(m.seconds), 0))::double precision
                 FROM (SELECT sum(finished) AS finished, max(period_seconds) AS seconds FROM agentq.metric
                       WHERE taken_at > agentq.fn_clock_now() - interval '5 minutes' GROUP BY taken_at) m), 0) AS per_second

-- name: oldest(key text, now timestamptz) freely
SELECT extract(epoch FROM $2 - CASE
    WHEN $1 = 'global' THEN least((SELECT min(scheduled_at) FROM agentq_internal.job_ready), (SELECT min(scheduled_at) FROM agentq_internal.job_line))
    WHEN $1 LIKE 'queue:%' THEN (
        SELECT least((SELECT min(r.scheduled_at) FROM agentq_internal.job_ready r WHERE r.any_queue_id = q.queue_id),
                     (SELECT min(b.scheduled_at) FROM agentq_internal.job_line b WHERE b.any_queue_id = q.queue_id))
        FROM agentq.queue q WHERE q.queue = substr($1, 7))
    WHEN $1 LIKE 'kind:%' THEN least(
        (SELECT min(r.scheduled_at) FROM agentq_internal.job_ready r WHERE r.job_kind = substr($1, 6)),
        (SELECT min(b.scheduled_at) FROM agentq_internal.job_line b WHERE b.job_kind = substr($1, 6)))
    ELSE (SELECT min(p.scheduled_at) FROM (SELECT job_id, scheduled_at FROM agentq_internal.job_ready
                                           UNION ALL SELECT job_id, scheduled_at FROM agentq_internal.job_line) p
          JOIN agentq_internal.job j ON j.job_id = p.job_id WHERE $1 = ANY (j.limit_keys))
    END)::double precision
