SELECT jsonb_strip_nulls(jsonb_build_object('job_kind', j.job_kind, 'idempotency_key', j.idempotency_key,
           'actor', j.actor, 'source_ref', j.source_ref, 'target_ref', j.target_ref, 'payload_ref', j.payload_ref,
           'priority', j.priority, 'max_attempts', j.max_attempts, 'run_id', j.run_id, 'queue', q.queue,
           'external_effects', j.external_effects, 'limit_keys', CASE WHEN to_jsonb(j)->'limit_weights' IS DISTINCT FROM 'null' AND to_jsonb(j) ? 'limit_weights'
            THEN (SELECT jsonb_object_agg(k.key, w.weight) FROM unnest(j.limit_keys) WITH ORDINALITY AS k (key, number)
                  JOIN jsonb_array_elements(to_jsonb(j)->'limit_weights') WITH ORDINALITY AS w (weight, number) USING (number)) ELSE to_jsonb(j.limit_keys) END,
        'ordering_key', j.ordering_key, 'cost', to_jsonb(j)->'cost', 'fairness_key', to_jsonb(j)->'fairness_key', 'requires', to_jsonb(j)->'requires'))
       || jsonb_build_object('payload_json', j.payload_json),
       v.state, coalesce(j.replay_count, 0), j.external_effects IS TRUE, c.checkpoint
FROM agentq.job j
JOIN agentq.queue q ON q.queue_id = j.queue_id
JOIN agentq.job_queue v ON v.job_id = j.job_id
LEFT JOIN agentq.job_checkpoint c ON c.job_id = j.job_id
WHERE j.job_id = $1
FOR UPDATE OF j
