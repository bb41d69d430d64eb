WITH item AS MATERIALIZED (
    SELECT n.index, a.job, n.id, n.queue_id, n.priority, n.max_attempts, n.scheduled_at, n.run_id, a.job->>'job_kind' AS job_kind
    FROM unnest($2, $3, $4, $5, $6, $7, $8) AS n(index, id, queue_id, priority, max_attempts, scheduled_at, run_id)
    CROSS JOIN LATERAL (SELECT $1->n.index AS job) a
), j AS (
    INSERT INTO agentq.job (job_id, queue_id, priority, max_attempts, scheduled_at, created_at, updated_at,
        run_id, job_kind, actor, idempotency_key, source_ref, target_ref, payload_ref, payload_json)
    SELECT id, queue_id, priority, max_attempts, scheduled_at, $9, $9, run_id, job_kind,
        coalesce(job->>'actor', session_user), job->>'idempotency_key', job->>'source_ref', job->>'target_ref',
        job->>'payload_ref', coalesce(nullif(job->'payload_json', 'null'), '{}')
    FROM item
), w AS (
    INSERT INTO agentq.job_waiting (scheduled_at, job_id)
    SELECT scheduled_at, id FROM item WHERE scheduled_at > $9
)
INSERT INTO agentq.job_ready (queue_id, any_queue_id, job_kind, priority, scheduled_at, job_id, keyed)
SELECT queue_id, queue_id, job_kind, priority, scheduled_at, id, job->>'idempotency_key' IS NOT NULL
FROM item WHERE scheduled_at <= $9
