, taken AS MATERIALIZED (
    DELETE FROM agentq.job_ready r USING pick WHERE r.ctid = pick.tid
    RETURNING r.job_id, pick.lease_until, gen_random_uuid() AS lease_token
), held AS MATERIALIZED (
    SELECT t.lease_token, t.lease_until, j.*, q.queue
    FROM taken t
    JOIN agentq.job j ON j.job_id = t.job_id
    JOIN agentq.queue q ON q.queue_id = j.queue_id
), lease AS (
    INSERT INTO agentq.job_lease (job_id, lease_token, lease_until, picked_at, lease_owner, idempotency_key)
    SELECT job_id, lease_token, lease_until, $2, $1, idempotency_key FROM held
), doc AS (
    SELECT h.queue_id, h.job_kind, h.priority, h.scheduled_at, h.job_id,
        jsonb_build_object('ok', true, 'code', 'claimed', 'job_id', h.job_id, 'job_kind', h.job_kind, 'queue', h.queue,
            'payload_json', h.payload_json, 'source_ref', h.source_ref, 'target_ref', h.target_ref,
            'payload_ref', h.payload_ref, 'priority', h.priority, 'scheduled_at', h.scheduled_at,
            'attempts', h.attempts, 'attempt', h.attempts + 1, 'max_attempts', h.max_attempts,
            'lease_owner', $1, 'lease_token', h.lease_token, 'lease_until', h.lease_until,
            'idempotency_key', coalesce(h.idempotency_key, h.job_id::text), 'actor', h.actor, 'run_id', h.run_id,
            'created_at', h.created_at,
            'checkpoint', (SELECT c.checkpoint FROM agentq.job_checkpoint c WHERE c.job_id = h.job_id)) AS job
    FROM held h
)
