-- name: rest(job_id uuid, outcome text, now timestamptz, error_class text, error text, costs int4,
--   scheduled_at timestamptz, state text, error_detail text)
WITH gone AS (
    DELETE FROM agentq_internal.job_lease WHERE job_id = $1
    RETURNING job_id, lease_token, picked_at, lease_owner, run
), logged AS (
    INSERT INTO agentq_internal.job_attempt_log (job_id, lease_token, began_at, ended_at, outcome, lease_owner, error_class, error, error_detail,
        run)
    SELECT job_id, lease_token, picked_at, $3, $2, lease_owner, $4, $5, $9, run FROM gone
)
UPDATE agentq_internal.job j
SET attempts = j.attempts + $6,
    last_error = coalesce($5, j.last_error),
    picked_at = gone.picked_at,
    scheduled_at = $7,
    resting_state = $8
FROM gone
WHERE j.job_id = gone.job_id

-- before: rest(job_id uuid, outcome text, now timestamptz, error_class text, error text, costs int4,
--   scheduled_at timestamptz, state text, error_detail text)
WITH gone AS (
    DELETE FROM agentq_internal.job_lease WHERE job_id = $1
    RETURNING job_id, lease_token, picked_at, lease_owner
), logged AS (
    INSERT INTO agentq_internal.job_attempt_log (job_id, lease_token, began_at, ended_at, outcome, lease_owner, error_class, error)
    SELECT job_id, lease_token, picked_at, $3, $2, lease_owner, $4, $5 FROM gone WHERE num_nulls($9) >= 0
)
UPDATE agentq_internal.job j
SET attempts = j.attempts + $6,
    last_error = coalesce($5, j.last_error),
    picked_at = gone.picked_at,
    scheduled_at = $7,
    resting_state = $8
FROM gone
WHERE j.job_id = gone.job_id

-- name: finish(job_id uuid, state text, outcome text, now timestamptz, error_class text, error text, costs int4,
--   cancel_reason text, error_detail text)
WITH gone AS (
    DELETE FROM agentq_internal.job_lease WHERE job_id = $1
    RETURNING job_id, lease_token, picked_at, lease_owner, cancel_reason, run
), logged AS (
    INSERT INTO agentq_internal.job_attempt_log (job_id, lease_token, began_at, ended_at, outcome, lease_owner, error_class, error, error_detail,
        run)
    SELECT job_id, lease_token, picked_at, $4, $3, lease_owner, $5,
           CASE WHEN $3 = 'cancelled' THEN nullif(cancel_reason, '') ELSE $6 END, $9, run
    FROM gone
), ended AS (
    INSERT INTO agentq_internal.job_done (job_id, finished_at, picked_at, state, cancel_reason)
    SELECT j.job_id, $4, coalesce(g.picked_at, j.picked_at), $2,
           CASE WHEN $2 = 'cancelled' THEN coalesce(nullif(g.cancel_reason, ''), $8) END
    FROM agentq_internal.job j LEFT JOIN gone g ON g.job_id = j.job_id
    WHERE j.job_id = $1
), freed AS (
    DELETE FROM agentq_internal.job_key k USING agentq_internal.job j
    WHERE j.job_id = $1 AND k.idempotency_key = j.idempotency_key AND k.job_id = j.job_id
)
UPDATE agentq_internal.job j
SET attempts = j.attempts + $7, last_error = coalesce($6, j.last_error)
WHERE j.job_id = $1

-- before: finish(job_id uuid, state text, outcome text, now timestamptz, error_class text, error text, costs int4,
--   cancel_reason text, error_detail text)
WITH gone AS (
    DELETE FROM agentq_internal.job_lease WHERE job_id = $1
    RETURNING job_id, lease_token, picked_at, lease_owner, cancel_reason
), logged AS (
    INSERT INTO agentq_internal.job_attempt_log (job_id, lease_token, began_at, ended_at, outcome, lease_owner, error_class, error)
    SELECT job_id, lease_token, picked_at, $4, $3, lease_owner, $5,
           CASE WHEN $3 = 'cancelled' THEN nullif(cancel_reason, '') ELSE $6 END
    FROM gone WHERE num_nulls($9) >= 0
), ended AS (
    INSERT INTO agentq_internal.job_done (job_id, finished_at, picked_at, state, cancel_reason)
    SELECT j.job_id, $4, coalesce(g.picked_at, j.picked_at), $2,
           CASE WHEN $2 = 'cancelled' THEN coalesce(nullif(g.cancel_reason, ''), $8) END
    FROM agentq_internal.job j LEFT JOIN gone g ON g.job_id = j.job_id
    WHERE j.job_id = $1
), freed AS (
    DELETE FROM agentq_internal.job_key k USING agentq_internal.job j
    WHERE j.job_id = $1 AND k.idempotency_key = j.idempotency_key AND k.job_id = j.job_id
)
UPDATE agentq_internal.job j
SET attempts = j.attempts + $7, last_error = coalesce($6, j.last_error)
WHERE j.job_id = $1

-- name: lock_free(job_id uuid)
WITH j AS (
    SELECT job_id, queue_id, priority, scheduled_at FROM agentq_internal.job WHERE job_id = $1
), ready AS (
    SELECT r.job_id FROM agentq_internal.job_ready r, j
    WHERE r.any_queue_id = j.queue_id AND r.priority = j.priority
      AND r.scheduled_at = j.scheduled_at AND r.job_id = j.job_id
    FOR UPDATE OF r SKIP LOCKED
), waiting AS (
    SELECT w.job_id FROM agentq_internal.job_waiting w, j
    WHERE w.scheduled_at = j.scheduled_at AND w.job_id = j.job_id
    FOR UPDATE OF w SKIP LOCKED
), lease AS (
    SELECT l.job_id FROM agentq_internal.job_lease l WHERE l.job_id = $1
    FOR UPDATE OF l SKIP LOCKED
)
SELECT job_id FROM ready UNION ALL SELECT job_id FROM waiting UNION ALL SELECT job_id FROM lease

-- name: letter_details(letter uuid, reason text, error_class text, unsafe_steps text[])
UPDATE agentq.job_dead_letter d
SET reason = $2, error_class = $3,
    error_history = coalesce((
        SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object('attempt', a.attempt_no, 'owner', a.lease_owner,
            'began_at', a.began_at, 'ended_at', a.ended_at, 'outcome', a.outcome,
            'error_class', a.error_class, 'error', left(a.error, 2000),
            'error_detail', left(to_jsonb(a)->>'error_detail', 2000))) ORDER BY a.attempt_no)
        FROM agentq.job_attempt a WHERE a.job_id = d.job_id), '[]'),
    settings = jsonb_strip_nulls(jsonb_build_object('priority', j.priority, 'max_attempts', j.max_attempts,
        'external_effects', j.external_effects, 'limit_keys', CASE WHEN j.limit_weights IS NULL THEN to_jsonb(j.limit_keys)
            ELSE (SELECT jsonb_object_agg(u.key, u.weight) FROM unnest(j.limit_keys, j.limit_weights) AS u (key, weight)) END,
        'ordering_key', j.ordering_key, 'cost', j.cost, 'fairness_key', j.fairness_key, 'requires', j.requires, 'replay_count', j.replay_count,
        'stall_seconds', to_jsonb(j)->'stall_seconds', 'retry', to_jsonb(j)->'retry', 'trace_id', to_jsonb(j)->'context'->'trace_id',
        'traceparent', to_jsonb(j)->'context'->'traceparent', 'correlation_id', to_jsonb(j)->'context'->'correlation_id', 'unsafe_steps', to_jsonb($4), 'made_at', coalesce((SELECT first.settings->>'made_at' FROM agentq.job_dead_letter first WHERE first.job_id = j.replay_of),
            j.created_at::text)))
FROM agentq_internal.job j
WHERE d.dead_letter_id = $1 AND j.job_id = d.job_id
RETURNING jsonb_build_object('job_id', d.job_id, 'dead_letter_id', d.dead_letter_id, 'job_kind', d.job_kind,
    'queue', d.queue, 'reason', d.reason, 'error_class', d.error_class, 'attempts', d.attempts,
    'error', left(d.final_error, 500)) || jsonb_strip_nulls(jsonb_build_object('on_end', j.on_end))

-- name: dead_letter(letter uuid, job_id uuid, error text, moved_by text, now timestamptz)
INSERT INTO agentq.job_dead_letter (dead_letter_id, job_id, job_kind, source_ref, target_ref, payload_ref, payload_json,
    final_error, attempts, actor, run_id, idempotency_key, moved_at, moved_by, queue)
SELECT $1, j.job_id, j.job_kind, j.source_ref, j.target_ref, j.payload_ref, j.payload_json,
       $3, j.attempts, j.actor, j.run_id, coalesce(j.idempotency_key, j.job_id::text), $5, $4, q.queue
FROM agentq_internal.job j JOIN agentq.queue q ON q.queue_id = j.queue_id
WHERE j.job_id = $2

-- name: cancel_held_all(jobs uuid[], reason text)
WITH free AS (
    SELECT l.job_id FROM agentq_internal.job_lease l
    WHERE l.job_id = ANY ($1) AND l.cancel_reason IS NULL
    FOR UPDATE SKIP LOCKED
)
UPDATE agentq_internal.job_lease l SET cancel_reason = $2 FROM free WHERE l.job_id = free.job_id
