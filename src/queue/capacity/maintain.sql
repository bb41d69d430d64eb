-- name: budget_add_up(most int8)
WITH gone AS (
    DELETE FROM agentq_internal.budget_spent WHERE ctid = ANY (ARRAY(SELECT ctid FROM agentq_internal.budget_spent LIMIT $1))
    RETURNING counter, amount
), added AS (
    INSERT INTO agentq_internal.budget_use AS u (counter, amount, updated_at)
    SELECT counter, least(sum(amount), 9e18)::bigint, agentq.fn_clock_now() FROM gone GROUP BY counter ORDER BY counter
    ON CONFLICT (counter) DO UPDATE SET amount = least(u.amount::numeric + excluded.amount, 9e18)::bigint, updated_at = excluded.updated_at
    RETURNING u.counter, u.amount
)
SELECT a.counter, a.amount, g.added, g.rows
FROM (SELECT counter, least(sum(amount), 9e18)::bigint AS added, count(*) AS rows FROM gone GROUP BY counter) g
JOIN added a ON a.counter = g.counter

-- name: forget_gauges(now int8)
DELETE FROM agentq_internal.limit_gauge
WHERE (gauge->>'idle_at')::bigint <= $1 AND (gauge->>'closed_until')::bigint <= $1
