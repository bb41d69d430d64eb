-- name: job_end(job_id uuid)
SELECT d.job_id IS NOT NULL AS is_over,
    CASE WHEN NOT agentq_internal.fn_sees_job(q.job_id) THEN jsonb_build_object('ok', q.state IN ('queued', 'leased', 'in_progress', 'retry_waiting', 'succeeded'),
             'code', CASE WHEN d.job_id IS NULL THEN 'pending' ELSE q.state END, 'job_id', q.job_id, 'state', q.state)
         WHEN d.job_id IS NULL THEN jsonb_build_object('ok', true, 'code', 'pending', 'job_id', q.job_id, 'state', q.state)
         WHEN q.state = 'succeeded' THEN jsonb_build_object('ok', true, 'code', 'succeeded', 'job_id', q.job_id, 'state', q.state,
             'result', d.result, 'finished_at', d.finished_at)
         ELSE jsonb_build_object('ok', false, 'code', q.state, 'job_id', q.job_id, 'state', q.state,
             'error', coalesce(nullif(d.cancel_reason, ''), q.last_error), 'attempts', q.attempts, 'finished_at', d.finished_at)
             || coalesce((SELECT jsonb_build_object('dead_letter_id', l.dead_letter_id, 'reason', l.reason,
                              'error_class', l.error_class, 'redriven_as', l.redriven_as)
                          FROM agentq.job_dead_letter l WHERE l.job_id = q.job_id LIMIT 1), '{}') END AS answer
FROM agentq.job_queue q LEFT JOIN agentq_internal.job_done d ON d.job_id = q.job_id
WHERE q.job_id = $1

-- before: job_end(job_id uuid)
SELECT d.job_id IS NOT NULL AS is_over,
    CASE WHEN d.job_id IS NULL THEN jsonb_build_object('ok', true, 'code', 'pending', 'job_id', q.job_id, 'state', q.state)
         WHEN q.state = 'succeeded' THEN jsonb_build_object('ok', true, 'code', 'succeeded', 'job_id', q.job_id, 'state', q.state,
             'result', d.result, 'finished_at', d.finished_at)
         ELSE jsonb_build_object('ok', false, 'code', q.state, 'job_id', q.job_id, 'state', q.state,
             'error', coalesce(nullif(d.cancel_reason, ''), q.last_error), 'attempts', q.attempts, 'finished_at', d.finished_at)
             || coalesce((SELECT jsonb_build_object('dead_letter_id', l.dead_letter_id, 'reason', l.reason,
                              'error_class', l.error_class, 'redriven_as', l.redriven_as)
                          FROM agentq.job_dead_letter l WHERE l.job_id = q.job_id LIMIT 1), '{}') END AS answer
FROM agentq.job_queue q LEFT JOIN agentq_internal.job_done d ON d.job_id = q.job_id
WHERE q.job_id = $1
