DELETE FROM agentq.limit_gauge
WHERE (gauge->>'idle_at')::bigint <= $1 AND (gauge->>'closed_until')::bigint <= $1
