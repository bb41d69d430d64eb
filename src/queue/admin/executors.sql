-- name: tick(executor_name text, executor_kind text, last_tick_status text, current_job_id uuid, lease_owner text,
--   metadata jsonb, now timestamptz)
INSERT INTO agentq.queue_heartbeat AS h (executor_name, executor_kind, last_tick_status, current_job_id, lease_owner,
    metadata, last_tick_at, ticks_total, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, 1, $7, $7)
ON CONFLICT (executor_name) DO UPDATE
SET executor_kind = excluded.executor_kind, last_tick_status = excluded.last_tick_status,
    current_job_id = excluded.current_job_id, lease_owner = excluded.lease_owner, metadata = excluded.metadata,
    last_tick_at = excluded.last_tick_at, ticks_total = h.ticks_total + 1
RETURNING jsonb_build_object('ok', true, 'code', 'ticked', 'executor_name', h.executor_name,
    'ticks_total', h.ticks_total, 'last_tick_at', h.last_tick_at)

-- name: stale_check(threshold int4, now timestamptz)
WITH classed AS (
    SELECT h.executor_name, h.executor_kind, h.last_tick_at, h.last_tick_status, h.current_job_id,
        CASE WHEN $2 - h.last_tick_at <= make_interval(secs => $1) THEN 'fresh'
             WHEN $2 - h.last_tick_at <= 2 * make_interval(secs => $1) THEN 'warning'
             ELSE 'stale' END AS freshness
    FROM agentq.queue_heartbeat h
)
SELECT jsonb_build_object('ok', true, 'code', 'checked', 'threshold_seconds', $1,
    'fresh', count(*) FILTER (WHERE freshness = 'fresh'),
    'warning', count(*) FILTER (WHERE freshness = 'warning'),
    'stale', count(*) FILTER (WHERE freshness = 'stale'),
    'executors', coalesce(jsonb_agg(jsonb_build_object('executor_name', executor_name, 'executor_kind', executor_kind,
        'freshness', freshness, 'last_tick_at', last_tick_at, 'last_tick_status', last_tick_status,
        'current_job_id', current_job_id) ORDER BY last_tick_at, executor_name), '[]'))
FROM classed

-- name: class_executors(stale_threshold_seconds int4, now timestamptz, most int8)
WITH classed AS MATERIALIZED (
    SELECT executor_name, was, executor_kind, silent, now_is
    FROM (
        SELECT executor_name, freshness AS was, executor_kind, extract(epoch FROM $2 - last_tick_at)::double precision AS silent,
            CASE WHEN $2 - last_tick_at <= make_interval(secs => $1) THEN 'fresh'
                 WHEN $2 - last_tick_at <= 2 * make_interval(secs => $1) THEN 'warning'
                 ELSE 'stale' END AS now_is
        FROM agentq.queue_heartbeat
    ) h
    WHERE was <> now_is
    LIMIT $3
), free AS MATERIALIZED (
    SELECT h.executor_name, c.was, c.now_is, c.executor_kind, c.silent
    FROM classed c CROSS JOIN LATERAL (
        SELECT o.executor_name FROM agentq.queue_heartbeat o WHERE o.executor_name = c.executor_name FOR UPDATE SKIP LOCKED
    ) h
)
UPDATE agentq.queue_heartbeat h SET freshness = free.now_is
FROM free WHERE h.executor_name = free.executor_name
RETURNING h.executor_name, free.was, free.now_is, free.executor_kind, free.silent

-- name: forget_executors(silent_since timestamptz, most int8)
WITH old AS MATERIALIZED (
    SELECT executor_name FROM agentq.queue_heartbeat
    WHERE freshness = 'stale' AND last_tick_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM agentq.queue_heartbeat h USING old WHERE h.executor_name = old.executor_name RETURNING 1
)
SELECT count(*) FROM gone
