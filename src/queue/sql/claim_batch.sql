SELECT jsonb_build_object('ok', true, 'code', 'claimed', 'count', count(*), 'jobs', jsonb_agg(job)),
       count(*),
       array_agg(queue_id),
       array_agg(job_kind),
       array_agg(priority),
       array_agg(scheduled_at),
       array_agg(job_id),
       (array_agg(job))[1]
FROM (
    SELECT d.job_id, d.queue_id, d.job_kind, d.priority, d.scheduled_at,
        CASE WHEN c.job_id IS NULL THEN d.job ELSE d.job || jsonb_build_object('checkpoint', c.checkpoint) END AS job
    FROM doc d LEFT JOIN agentq.job_checkpoint c ON c.job_id = d.job_id AND d.picked_at IS NOT NULL
    ORDER BY d.priority, d.scheduled_at, d.job_id
) d
