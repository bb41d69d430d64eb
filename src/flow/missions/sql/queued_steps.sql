SELECT s.step_id, s.job_id, s.shard FROM agentq.mission_step s
WHERE s.mission_id = $1 AND s.status = 'queued' AND s.job_id IS NOT NULL
  AND (SELECT l.job_id FROM agentq.job_lease l WHERE l.job_id = s.job_id) IS NULL
ORDER BY s.step_id
