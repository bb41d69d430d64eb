WITH RECURSIVE m (id) AS (
    SELECT $1::uuid
    UNION ALL
    SELECT s.child_id FROM m JOIN agentq.mission_step s ON s.mission_id = m.id WHERE s.child_id IS NOT NULL
), e (job_id) AS (
    SELECT f.job_id
    FROM m CROSS JOIN LATERAL (
        SELECT DISTINCT job_id FROM agentq.effect WHERE mission_id = m.id AND compensates IS NULL OFFSET 0
    ) f
    UNION SELECT $2
)
SELECT j.job_id
FROM e JOIN agentq.job j ON j.job_id = e.job_id
WHERE NOT EXISTS (SELECT FROM agentq.job_done d WHERE d.job_id = j.job_id)
