-- name: job_get(job_id uuid)
SELECT CASE WHEN NOT agentq_internal.fn_sees_job(q.job_id)
    THEN jsonb_build_object('ok', true, 'code', 'found', 'job', jsonb_build_object('job_id', q.job_id, 'state', q.state))
    ELSE jsonb_build_object('ok', true, 'code', 'found',
    'job', to_jsonb(q) || jsonb_build_object(
        'result', d.result,
        'error_class', (SELECT a.error_class FROM agentq_internal.job_attempt_log a
                        WHERE a.job_id = d.job_id AND a.ended_at = d.finished_at),
        'checkpoint', c.checkpoint,
        'cancel_requested', l.cancel_reason IS NOT NULL,
        'cancel_reason', nullif(coalesce(d.cancel_reason, l.cancel_reason), ''),
        'start_by', t.job->'start_by', 'finish_by', t.job->'finish_by', 'stall_seconds', t.job->'stall_seconds', 'retry', t.job->'retry',
        'external_effects', coalesce((t.job->>'external_effects')::boolean, false), 
        'parked', CASE WHEN d.job_id IS NULL THEN t.job->'parked' END,
        'limit_keys', t.job->'limit_keys', 'ordering_key', t.job->'ordering_key', 'limit_weights', t.job->'limit_weights',
        'cost', t.job->'cost', 'fairness_key', t.job->'fairness_key', 'requires', t.job->'requires', 'replay_of', t.job->'replay_of', 'replay_count', coalesce((t.job->>'replay_count')::integer, 0)),
    'attempts', coalesce((SELECT jsonb_agg(to_jsonb(a) - '{job_id,lease_token}'::text[] ORDER BY a.attempt_no)
                          FROM agentq.job_attempt a WHERE a.job_id = q.job_id), '[]')) END
FROM agentq.job_queue q
LEFT JOIN agentq_internal.job_lease l ON l.job_id = q.job_id
LEFT JOIN agentq_internal.job_done d ON d.job_id = q.job_id
LEFT JOIN agentq_internal.job_checkpoint c ON c.job_id = q.job_id
-- Not every version of the schema has all of its columns.
LEFT JOIN LATERAL (SELECT to_jsonb(j) AS job FROM agentq_internal.job j WHERE j.job_id = q.job_id) t ON true
WHERE q.job_id = $1

-- before: job_get(job_id uuid)
SELECT jsonb_build_object('ok', true, 'code', 'found',
    'job', to_jsonb(q) || jsonb_build_object(
        'result', d.result,
        'error_class', (SELECT a.error_class FROM agentq_internal.job_attempt_log a
                        WHERE a.job_id = d.job_id AND a.ended_at = d.finished_at),
        'checkpoint', c.checkpoint,
        'cancel_requested', l.cancel_reason IS NOT NULL,
        'cancel_reason', nullif(coalesce(d.cancel_reason, l.cancel_reason), ''),
        'start_by', t.job->'start_by', 'finish_by', t.job->'finish_by', 'stall_seconds', t.job->'stall_seconds', 'retry', t.job->'retry',
        'external_effects', coalesce((t.job->>'external_effects')::boolean, false), 
        'parked', CASE WHEN d.job_id IS NULL THEN t.job->'parked' END,
        'limit_keys', t.job->'limit_keys', 'ordering_key', t.job->'ordering_key', 'limit_weights', t.job->'limit_weights',
        'cost', t.job->'cost', 'fairness_key', t.job->'fairness_key', 'requires', t.job->'requires', 'replay_of', t.job->'replay_of', 'replay_count', coalesce((t.job->>'replay_count')::integer, 0)),
    'attempts', coalesce((SELECT jsonb_agg(to_jsonb(a) - '{job_id,lease_token}'::text[] ORDER BY a.attempt_no)
                          FROM agentq.job_attempt a WHERE a.job_id = q.job_id), '[]'))
FROM agentq.job_queue q
LEFT JOIN agentq_internal.job_lease l ON l.job_id = q.job_id
LEFT JOIN agentq_internal.job_done d ON d.job_id = q.job_id
LEFT JOIN agentq_internal.job_checkpoint c ON c.job_id = q.job_id
-- Not every version of the schema has all of its columns.
LEFT JOIN LATERAL (SELECT to_jsonb(j) AS job FROM agentq_internal.job j WHERE j.job_id = q.job_id) t ON true
WHERE q.job_id = $1
