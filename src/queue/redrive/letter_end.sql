-- name: letter_ended(of uuid, job_id uuid, well bool, now timestamptz)
-- What people have decided meanwhile stays. The runs before are those that the letters of this line name, one after the
-- other; a line that is longer than anybody's patience is cut.
WITH RECURSIVE line AS (
    SELECT $1 AS job_id, $2 AS redriven_as, 1 AS number
    UNION ALL
    SELECT d.job_id, d.redriven_as, line.number + 1
    FROM line
    JOIN agentq_internal.job j ON j.job_id = line.job_id
    CROSS JOIN LATERAL (SELECT * FROM agentq.job_dead_letter o WHERE o.job_id = j.replay_of AND o.redriven_as = line.job_id OFFSET 0) d
    WHERE $3 AND line.number < 100
)
UPDATE agentq.job_dead_letter d
SET resolution_status = CASE WHEN $3 THEN 'resolved' ELSE 'pending' END, resolved_at = CASE WHEN $3 THEN $4 END
FROM line
WHERE d.job_id = line.job_id AND d.redriven_as = line.redriven_as
  AND (d.resolution_status = 'investigating' OR line.number > 1 AND d.resolution_status = 'pending')
