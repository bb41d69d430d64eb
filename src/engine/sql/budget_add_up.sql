WITH gone AS (
    DELETE FROM agentq.budget_spent WHERE ctid = ANY (ARRAY(SELECT ctid FROM agentq.budget_spent LIMIT $1))
    RETURNING counter, amount
), added AS (
    INSERT INTO agentq.budget_use AS u (counter, amount, updated_at)
    SELECT counter, sum(amount), agentq.fn_clock_now() FROM gone GROUP BY counter ORDER BY counter
    ON CONFLICT (counter) DO UPDATE SET amount = u.amount + excluded.amount, updated_at = excluded.updated_at
)
SELECT count(*) FROM gone
