UPDATE agentq.job_dead_letter d
SET redriven_as = t.job_id, redriven_at = $3, triage_status = 'manual_replay', triaged_at = $3, triaged_by = $4,
    resolution_status = 'resolved', resolved_at = coalesce(d.resolved_at, $3)
FROM unnest($1, $2) AS t (dead_letter_id, job_id)
WHERE d.dead_letter_id = t.dead_letter_id
