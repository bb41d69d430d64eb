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
