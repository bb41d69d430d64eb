INSERT INTO agentq.queue_heartbeat AS h (executor_name, executor_kind, last_tick_status, current_job_id, lease_owner,
    metadata, last_tick_at, ticks_total, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, 1, $7, $7)
ON CONFLICT (executor_name) DO UPDATE
SET executor_kind = excluded.executor_kind, last_tick_status = excluded.last_tick_status,
    current_job_id = excluded.current_job_id, lease_owner = excluded.lease_owner, metadata = excluded.metadata,
    last_tick_at = excluded.last_tick_at, ticks_total = h.ticks_total + 1
RETURNING jsonb_build_object('ok', true, 'code', 'ticked', 'executor_name', h.executor_name,
    'ticks_total', h.ticks_total, 'last_tick_at', h.last_tick_at)
