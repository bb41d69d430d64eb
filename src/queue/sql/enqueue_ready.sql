WITH j AS (
    INSERT INTO agentq.job (job_id, queue_id, priority, max_attempts, scheduled_at, created_at, updated_at,
        run_id, job_kind, actor, idempotency_key, source_ref, target_ref, payload_ref, payload_json)
    VALUES ($1, $2, $3, $4, $5, $6, $6, $7, $8, coalesce($9, session_user), $10, $11, $12, $13, $14)
)
INSERT INTO agentq.job_ready (queue_id, any_queue_id, job_kind, priority, scheduled_at, job_id, keyed)
VALUES ($2, $2, $8, $3, $5, $1, $10 IS NOT NULL)
RETURNING jsonb_build_object('ok', true, 'code', 'enqueued', 'duplicate', false, 'job_id', $1,
    'state', 'queued', 'queue', $15, 'scheduled_at', $5)
