SELECT k.owner_id
FROM (SELECT DISTINCT owner_id FROM agentq.mission_count WHERE state = 'stopping') k
WHERE EXISTS (SELECT FROM agentq.mission_step s LEFT JOIN agentq.mission_item i ON i.step_id = s.step_id AND i.status = 'queued'
              JOIN agentq.job_queue j ON j.job_id = coalesce(s.job_id, i.job_id) AND j.state IN ('queued', 'retry_waiting')
              WHERE s.mission_id = k.owner_id AND s.status = 'queued')
LIMIT 20
