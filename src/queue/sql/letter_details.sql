UPDATE agentq.job_dead_letter d
SET reason = $2, error_class = $3,
    error_history = coalesce((
        SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object('attempt', a.attempt_no, 'owner', a.lease_owner,
            'began_at', a.began_at, 'ended_at', a.ended_at, 'outcome', a.outcome,
            'error_class', a.error_class, 'error', left(a.error, 2000))) ORDER BY a.attempt_no)
        FROM agentq.job_attempt a WHERE a.job_id = d.job_id), '[]'),
    settings = jsonb_strip_nulls(jsonb_build_object('priority', j.priority, 'max_attempts', j.max_attempts,
        'external_effects', j.external_effects, 'limit_keys', CASE WHEN to_jsonb(j)->'limit_weights' IS DISTINCT FROM 'null' AND to_jsonb(j) ? 'limit_weights'
            THEN (SELECT jsonb_object_agg(k.key, w.weight) FROM unnest(j.limit_keys) WITH ORDINALITY AS k (key, number)
                  JOIN jsonb_array_elements(to_jsonb(j)->'limit_weights') WITH ORDINALITY AS w (weight, number) USING (number)) ELSE to_jsonb(j.limit_keys) END,
        'ordering_key', j.ordering_key, 'cost', to_jsonb(j)->'cost', 'fairness_key', to_jsonb(j)->'fairness_key', 'requires', to_jsonb(j)->'requires', 'replay_count', j.replay_count,
        'made_at', coalesce((SELECT first.settings->>'made_at' FROM agentq.job_dead_letter first WHERE first.job_id = j.replay_of),
            j.created_at::text)))
FROM agentq.job j
WHERE d.dead_letter_id = $1 AND j.job_id = d.job_id
RETURNING jsonb_build_object('job_id', d.job_id, 'dead_letter_id', d.dead_letter_id, 'job_kind', d.job_kind,
    'queue', d.queue, 'reason', d.reason, 'error_class', d.error_class, 'attempts', d.attempts,
    'error', left(d.final_error, 500)) || jsonb_strip_nulls(jsonb_build_object('on_end', to_jsonb(j)->>'on_end'))
