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

-- name: class_executors(stale_threshold_seconds int4, now timestamptz)
WITH classed AS (
    SELECT executor_name, freshness AS was, executor_kind, extract(epoch FROM $2 - last_tick_at)::double precision AS silent,
        CASE WHEN $2 - last_tick_at <= make_interval(secs => $1) THEN 'fresh'
             WHEN $2 - last_tick_at <= 2 * make_interval(secs => $1) THEN 'warning'
             ELSE 'stale' END AS now_is
    FROM agentq.queue_heartbeat
), free AS MATERIALIZED (
    SELECT h.executor_name FROM classed c JOIN agentq.queue_heartbeat h ON h.executor_name = c.executor_name
    WHERE c.was <> c.now_is
    FOR UPDATE OF h SKIP LOCKED
), changed AS (
    UPDATE agentq.queue_heartbeat h SET freshness = c.now_is
    FROM classed c JOIN free USING (executor_name) WHERE c.executor_name = h.executor_name
    RETURNING h.executor_name
)
SELECT executor_name, was, now_is, executor_kind, silent
FROM changed JOIN classed USING (executor_name) ORDER BY executor_name
