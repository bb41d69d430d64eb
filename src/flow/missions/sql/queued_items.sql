SELECT s.step_id, i.item, i.job_id, s.item_count, s.shard
FROM agentq.mission_step s
CROSS JOIN LATERAL (SELECT * FROM agentq.mission_item o WHERE o.step_id = s.step_id AND o.status = 'queued' OFFSET 0) i
WHERE s.mission_id = $1 AND s.status = 'queued' AND s.item_count IS NOT NULL
  AND (SELECT l.job_id FROM agentq.job_lease l WHERE l.job_id = i.job_id) IS NULL
ORDER BY s.step_id, i.item
