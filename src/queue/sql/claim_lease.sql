, lease AS (
    INSERT INTO agentq.job_lease (job_id, lease_token, lease_until, picked_at, lease_owner, keyed)
    SELECT job_id, lease_token, lease_until, $2, $1, keyed FROM taken
), doc AS (
    SELECT j.job_id, j.queue_id, j.job_kind::text AS job_kind, j.priority::integer AS priority, j.scheduled_at, j.picked_at,
        jsonb_build_object('ok', true, 'code', 'claimed', 'job_id', j.job_id, 'job_kind', j.job_kind, 'queue', t.queue,
            'payload_json', j.payload_json, 'source_ref', j.source_ref, 'target_ref', j.target_ref,
            'payload_ref', j.payload_ref, 'priority', j.priority, 'scheduled_at', j.scheduled_at,
            'attempts', j.attempts, 'attempt', j.attempts + 1, 'max_attempts', j.max_attempts,
            'lease_owner', $1, 'lease_token', t.lease_token, 'lease_until', t.lease_until,
            'idempotency_key', coalesce(j.idempotency_key::text, j.job_id::text), 'actor', j.actor, 'run_id', j.run_id,
            'created_at', j.created_at, 'checkpoint', NULL) AS job
    FROM taken t JOIN agentq.job j ON j.job_id = t.job_id
)
