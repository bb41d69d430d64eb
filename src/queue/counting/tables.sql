-- name: line_names(after text, upto text, most int8)
WITH RECURSIVE k AS (
    (SELECT line AS key FROM agentq_internal.job_line WHERE line > $1 AND line < $2 ORDER BY line LIMIT 1)
    UNION ALL
    SELECT (SELECT b.line FROM agentq_internal.job_line b WHERE b.line > k.key AND b.line < $2 ORDER BY b.line LIMIT 1)
    FROM k WHERE k.key IS NOT NULL
)
SELECT key FROM k WHERE key IS NOT NULL LIMIT $3

-- name: gauge_save(limit_key text, gauge jsonb)
INSERT INTO agentq_internal.limit_gauge AS g (limit_key, gauge, saved_at)
VALUES ($1, $2, agentq.fn_clock_now())
ON CONFLICT (limit_key) DO UPDATE SET gauge = excluded.gauge, saved_at = excluded.saved_at
