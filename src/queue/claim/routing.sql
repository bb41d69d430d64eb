-- name: routes(after text, most int8)
-- The fair lines in which jobs wait, from one on.
WITH RECURSIVE lane AS (
    (SELECT line AS name FROM agentq_internal.job_line WHERE line > $1 AND line < 'fair;' ORDER BY line LIMIT 1)
    UNION ALL
    SELECT (SELECT b.line FROM agentq_internal.job_line b
            WHERE b.line > lane.name AND b.line < 'fair;' ORDER BY b.line LIMIT 1)
    FROM lane WHERE lane.name IS NOT NULL
)
SELECT name FROM lane WHERE name IS NOT NULL LIMIT $2

-- name: unroutable(requires text, lanes text[], alert_after int8, now timestamptz)
WITH waiting AS (
    SELECT $1 AS requires, (SELECT min(b.scheduled_at) FROM agentq_internal.job_line b WHERE b.line = ANY ($2)) AS since,
           (SELECT count(*) FROM (SELECT FROM agentq_internal.job_line b WHERE b.line = ANY ($2) LIMIT 10000) j) AS jobs,
           (SELECT b.job_id FROM agentq_internal.job_line b WHERE b.line = ANY ($2) ORDER BY b.scheduled_at LIMIT 1) AS job_id
)
SELECT jsonb_build_object('requires', string_to_array(w.requires, ','), 'jobs', w.jobs, 'since', w.since, 'job_id', w.job_id) AS told
FROM waiting w
WHERE w.since < $4 - make_interval(secs => $3)
  AND NOT EXISTS (SELECT FROM agentq.event e WHERE e.subject = w.requires AND e.event_kind = 'job.unroutable'
                  AND e.event_at > $4 - interval '1 hour')
  AND NOT EXISTS (SELECT FROM agentq.fn_capable_workers(string_to_array(w.requires, ',')))
