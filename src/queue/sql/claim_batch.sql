SELECT jsonb_build_object('ok', true, 'code', 'claimed', 'count', count(*),
           'jobs', jsonb_agg(job ORDER BY priority, scheduled_at, job_id)),
       count(*),
       array_agg(queue_id ORDER BY priority, scheduled_at, job_id),
       array_agg(job_kind ORDER BY priority, scheduled_at, job_id),
       array_agg(priority ORDER BY priority, scheduled_at, job_id),
       array_agg(scheduled_at ORDER BY priority, scheduled_at, job_id),
       array_agg(job_id ORDER BY priority, scheduled_at, job_id),
       (array_agg(job ORDER BY priority, scheduled_at, job_id))[1]
FROM doc
