-- name: capabilities(owner text) freely
SELECT array_agg(c.capability)
FROM agentq.queue_heartbeat h
CROSS JOIN LATERAL jsonb_array_elements_text(CASE WHEN jsonb_typeof(h.metadata->'capabilities') = 'array' THEN h.metadata->'capabilities' ELSE '[]' END) AS c (capability)
WHERE h.executor_name = $1 OR h.lease_owner = $1
