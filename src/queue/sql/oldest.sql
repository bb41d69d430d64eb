SELECT extract(epoch FROM $2 - CASE
    WHEN $1 = 'global' THEN least((SELECT min(scheduled_at) FROM agentq.job_ready), (SELECT min(scheduled_at) FROM agentq.job_blocked))
    WHEN $1 LIKE 'queue:%' THEN (
        SELECT least((SELECT min(r.scheduled_at) FROM agentq.job_ready r WHERE r.any_queue_id = q.queue_id),
                     (SELECT min(b.scheduled_at) FROM agentq.job_blocked b WHERE b.any_queue_id = q.queue_id))
        FROM agentq.queue q WHERE q.queue = substr($1, 7))
    WHEN $1 LIKE 'kind:%' THEN least(
        (SELECT min(r.scheduled_at) FROM agentq.job_ready r WHERE r.job_kind = substr($1, 6)),
        (SELECT min(b.scheduled_at) FROM agentq.job_blocked b WHERE b.job_kind = substr($1, 6)))
    ELSE (SELECT min(p.scheduled_at) FROM (SELECT job_id, scheduled_at FROM agentq.job_ready
                                           UNION ALL SELECT job_id, scheduled_at FROM agentq.job_blocked) p
          JOIN agentq.job j ON j.job_id = p.job_id WHERE $1 = ANY (j.limit_keys))
    END)::double precision
