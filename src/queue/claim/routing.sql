-- name: unroutable(alert_after int8, now timestamptz) freely
WITH RECURSIVE lane AS (
    (SELECT line AS name FROM agentq_internal.job_line WHERE line >= 'fair:' AND line < 'fair;' ORDER BY line LIMIT 1)
    UNION ALL
    SELECT (SELECT b.line FROM agentq_internal.job_line b
            WHERE b.line > lane.name AND b.line < 'fair;' ORDER BY b.line LIMIT 1)
    FROM lane WHERE lane.name IS NOT NULL
), needs AS (
    SELECT split_part(name, '|', 2) AS requires, array_agg(name) AS lanes
    FROM lane WHERE name IS NOT NULL AND split_part(name, '|', 2) <> ''
    GROUP BY 1
), waiting AS (
    SELECT n.requires, (SELECT min(b.scheduled_at) FROM agentq_internal.job_line b WHERE b.line = ANY (n.lanes)) AS since,
           (SELECT count(*) FROM (SELECT FROM agentq_internal.job_line b WHERE b.line = ANY (n.lanes) LIMIT 10000) j) AS jobs,
           (SELECT b.job_id FROM agentq_internal.job_line b WHERE b.line = ANY (n.lanes) ORDER BY b.scheduled_at LIMIT 1) AS job_id
    FROM needs n
)
SELECT w.requires, jsonb_build_object('requires', string_to_array(w.requires, ','), 'jobs', w.jobs, 'since', w.since, 'job_id', w.job_id) AS told
FROM waiting w
WHERE w.since < $2 - make_interval(secs => $1)
  AND NOT EXISTS (SELECT FROM agentq.fn_capable_workers(string_to_array(w.requires, ',')))
  AND NOT EXISTS (SELECT FROM agentq.event e WHERE e.subject = w.requires AND e.event_kind = 'job.unroutable'
                  AND e.event_at > $2 - interval '1 hour')
