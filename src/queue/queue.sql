-- name: expire_metric(now timestamptz, most int8)
WITH old AS (
    SELECT ctid AS tid FROM agentq.metric WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM agentq.metric t USING old WHERE t.ctid = old.tid RETURNING 1
)
SELECT count(*) FROM gone

-- name: expire_throttle(now timestamptz, most int8)
WITH old AS (
    SELECT ctid AS tid FROM agentq_internal.job_throttle WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM agentq_internal.job_throttle t USING old WHERE t.ctid = old.tid RETURNING 1
)
SELECT count(*) FROM gone
