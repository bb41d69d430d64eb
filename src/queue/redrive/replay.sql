-- name: replay_lock(job_id uuid)
WITH letter AS (
    SELECT dead_letter_id FROM agentq.job_dead_letter WHERE job_id = $1 FOR UPDATE
)
SELECT (SELECT count(*) FROM letter) > 0 AS has_letter FROM agentq_internal.job_done d
WHERE d.job_id = $1 AND (SELECT count(*) FROM letter) >= 0 FOR UPDATE

-- name: replay_document(job_id uuid)
SELECT jsonb_strip_nulls(jsonb_build_object('job_kind', j.job_kind, 'idempotency_key', j.idempotency_key,
           'actor', j.actor, 'source_ref', j.source_ref, 'target_ref', j.target_ref, 'payload_ref', j.payload_ref,
           'priority', j.priority, 'max_attempts', j.max_attempts, 'run_id', j.run_id, 'queue', q.queue,
           'external_effects', j.external_effects, 'limit_keys', CASE WHEN j.limit_weights IS NULL THEN to_jsonb(j.limit_keys)
            ELSE (SELECT jsonb_object_agg(u.key, u.weight) FROM unnest(j.limit_keys, j.limit_weights) AS u (key, weight)) END,
        'ordering_key', j.ordering_key, 'cost', j.cost, 'fairness_key', j.fairness_key, 'requires', j.requires,
        'stall_seconds', to_jsonb(j)->'stall_seconds', 'retry', to_jsonb(j)->'retry', 'trace_id', to_jsonb(j)->'context'->'trace_id',
        'traceparent', to_jsonb(j)->'context'->'traceparent', 'correlation_id', to_jsonb(j)->'context'->'correlation_id'))
       || jsonb_build_object('payload_json', j.payload_json) AS document,
       v.state, coalesce(j.replay_count, 0) AS replays
FROM agentq_internal.job j
JOIN agentq.queue q ON q.queue_id = j.queue_id
JOIN agentq.job_queue v ON v.job_id = j.job_id
WHERE j.job_id = $1
FOR UPDATE OF j

-- name: replayed(job_id uuid, id uuid, replays int4, now timestamptz)
WITH letter AS (
    UPDATE agentq.job_dead_letter
    SET redriven_as = $2, redriven_at = $4, triage_status = 'manual_replay',
        resolution_status = 'investigating', resolved_at = NULL,
        settings = settings || jsonb_build_object('replay_count', $3)
    WHERE job_id = $1
)
UPDATE agentq_internal.job SET replay_count = $3 WHERE job_id = $1
