SELECT j.job_id
FROM (SELECT DISTINCT job_id FROM agentq.effect WHERE mission_id = $1 AND compensates IS NULL UNION SELECT $2) e
JOIN agentq.job j ON j.job_id = e.job_id
WHERE NOT EXISTS (SELECT FROM agentq.job_done d WHERE d.job_id = j.job_id)
