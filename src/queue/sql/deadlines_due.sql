SELECT g.job_id, g.deadline_at, g.what = 'start',
       EXISTS (SELECT FROM agentq.job j WHERE j.job_id = g.job_id AND (g.what = 'finish' OR j.picked_at IS NULL))
       AND NOT EXISTS (SELECT FROM agentq.job_done d WHERE d.job_id = g.job_id)
       AND (g.what = 'finish' OR NOT EXISTS (SELECT FROM agentq.job_lease l WHERE l.job_id = g.job_id))
FROM agentq.job_deadline g
WHERE g.deadline_at <= $1
ORDER BY g.deadline_at, g.job_id, g.what
LIMIT $2
FOR UPDATE OF g SKIP LOCKED
