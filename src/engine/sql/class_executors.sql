WITH classed AS (
    SELECT executor_name, freshness AS was, executor_kind, extract(epoch FROM $2 - last_tick_at)::double precision AS silent,
        CASE WHEN $2 - last_tick_at <= make_interval(secs => $1) THEN 'fresh'
             WHEN $2 - last_tick_at <= 2 * make_interval(secs => $1) THEN 'warning'
             ELSE 'stale' END AS now_is
    FROM agentq.queue_heartbeat
), changed AS (
    UPDATE agentq.queue_heartbeat h SET freshness = c.now_is
    FROM classed c WHERE c.executor_name = h.executor_name AND c.was <> c.now_is
    RETURNING h.executor_name
)
SELECT executor_name, was, now_is, executor_kind, silent
FROM changed JOIN classed USING (executor_name) ORDER BY executor_name
