UPDATE agentq.job_lease l
SET limits = ARRAY(SELECT k FROM unnest(l.limits) k UNION SELECT k FROM unnest(n.keys) k)
FROM (
    SELECT h.job_id, array_agg(k.key) AS keys
    FROM agentq.job_lease h
    JOIN agentq.job j ON j.job_id = h.job_id
    JOIN agentq.queue q ON q.queue_id = j.queue_id
    CROSS JOIN LATERAL (
        SELECT 'global' AS key
        UNION ALL SELECT 'queue:' || q.queue
        UNION ALL SELECT 'kind:' || j.job_kind
        UNION ALL SELECT unnest(j.limit_keys)
    ) k
    WHERE octet_length(k.key) <= 100 AND agentq.fn_limit_rule_of(k.key) IS NOT NULL
      AND NOT coalesce(k.key = ANY (h.limits), false)
    GROUP BY h.job_id
) n
WHERE l.job_id = n.job_id
