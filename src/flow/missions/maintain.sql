-- name: missions_late(now timestamptz, left_alone uuid[])
SELECT mission_id, deadline_at FROM agentq.mission
WHERE deadline_at <= $1 AND completed_at IS NULL AND status IN ('approved', 'running') AND last_error IS NULL
  AND mission_id <> ALL ($2)
ORDER BY deadline_at LIMIT 20

-- name: missions_orphaned(left_alone uuid[]) freely
SELECT c.mission_id
FROM (SELECT DISTINCT owner_id FROM agentq_internal.mission_count WHERE state = 'stopping') k
JOIN agentq_internal.mission_step s ON s.mission_id = k.owner_id AND s.status = 'queued'
LEFT JOIN agentq.mission_item i ON i.step_id = s.step_id AND i.status = 'queued' AND s.spec ? 'mission'
JOIN agentq.mission c ON c.mission_id = coalesce(s.child_id, i.job_id) AND c.status IN ('approved', 'running') AND c.last_error IS NULL
WHERE c.mission_id <> ALL ($1)
LIMIT 20

-- name: missions_stopping(left_alone uuid[]) freely
SELECT k.owner_id, m.status = 'cancelling' AS is_cancelled, m.cancel_reason
FROM (SELECT DISTINCT owner_id FROM agentq_internal.mission_count WHERE state = 'stopping') k
JOIN agentq.mission m ON m.mission_id = k.owner_id
WHERE k.owner_id <> ALL ($1) AND (EXISTS (SELECT FROM agentq_internal.mission_step s LEFT JOIN agentq.mission_item i ON i.step_id = s.step_id AND i.status = 'queued'
              JOIN agentq.job_queue j ON j.job_id = coalesce(s.job_id, i.job_id) AND j.state IN ('queued', 'retry_waiting')
              WHERE s.mission_id = k.owner_id AND s.status = 'queued')
   OR m.status = 'cancelling' AND EXISTS (
              SELECT FROM agentq_internal.mission_step s LEFT JOIN agentq.mission_item i ON i.step_id = s.step_id AND i.status = 'queued'
              JOIN agentq_internal.job_lease l ON l.job_id = coalesce(s.job_id, i.job_id) AND l.cancel_reason IS NULL
              WHERE s.mission_id = k.owner_id AND s.status = 'queued')
   OR EXISTS (SELECT FROM agentq_internal.mission_step s JOIN agentq.mission_wait w ON w.step_id = s.step_id
              WHERE s.mission_id = k.owner_id AND s.status = 'queued'))
LIMIT 20

-- before: missions_stopping(left_alone uuid[])
SELECT k.owner_id, m.status = 'cancelling' AS is_cancelled, m.cancel_reason
FROM (SELECT DISTINCT owner_id FROM agentq_internal.mission_count WHERE state = 'stopping') k
JOIN agentq.mission m ON m.mission_id = k.owner_id
WHERE k.owner_id <> ALL ($1) AND (EXISTS (SELECT FROM agentq_internal.mission_step s LEFT JOIN agentq.mission_item i ON i.step_id = s.step_id AND i.status = 'queued'
              JOIN agentq.job_queue j ON j.job_id = coalesce(s.job_id, i.job_id) AND j.state IN ('queued', 'retry_waiting')
              WHERE s.mission_id = k.owner_id AND s.status = 'queued')
   OR m.status = 'cancelling' AND EXISTS (
              SELECT FROM agentq_internal.mission_step s LEFT JOIN agentq.mission_item i ON i.step_id = s.step_id AND i.status = 'queued'
              JOIN agentq_internal.job_lease l ON l.job_id = coalesce(s.job_id, i.job_id) AND l.cancel_reason IS NULL
              WHERE s.mission_id = k.owner_id AND s.status = 'queued'))
LIMIT 20

-- name: missions_purge(before timestamptz, _i64 int8) freely
WITH old AS (
    SELECT m.mission_id FROM agentq.mission m
    WHERE m.completed_at <= $1
      AND NOT EXISTS (SELECT FROM agentq_internal.mission_step p JOIN agentq.mission o ON o.mission_id = p.mission_id
                      WHERE p.step_id = m.parent_step_id AND o.completed_at IS NULL)
    ORDER BY m.completed_at LIMIT $2
    FOR UPDATE OF m SKIP LOCKED
), steps AS (
    SELECT s.step_id FROM old JOIN agentq_internal.mission_step s USING (mission_id)
), edges AS (
    DELETE FROM agentq_internal.mission_edge e USING steps WHERE e.parent_id = steps.step_id
), items AS (
    DELETE FROM agentq.mission_item i USING steps WHERE i.step_id = steps.step_id
), rows AS (
    DELETE FROM agentq_internal.mission_step s USING old WHERE s.mission_id = old.mission_id
), gone AS (
    DELETE FROM agentq.mission m USING old WHERE m.mission_id = old.mission_id RETURNING m.mission_id
)
SELECT count(*) FROM gone
