INSERT INTO agentq.limit_gauge AS g (limit_key, gauge, saved_at)
VALUES ($1, $2, agentq.fn_clock_now())
ON CONFLICT (limit_key) DO UPDATE SET gauge = excluded.gauge, saved_at = excluded.saved_at
