WITH RECURSIVE k AS (
    (SELECT blocked_by AS key FROM agentq.job_blocked ORDER BY blocked_by LIMIT 1)
    UNION ALL
    SELECT (SELECT b.blocked_by FROM agentq.job_blocked b WHERE b.blocked_by > k.key ORDER BY b.blocked_by LIMIT 1)
    FROM k WHERE k.key IS NOT NULL
)
SELECT key FROM k WHERE key IS NOT NULL AND key NOT LIKE 'order:%'
