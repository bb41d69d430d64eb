WITH t AS (
    SELECT * FROM unnest($1, $2) AS t (dead_letter_id, job_id)
), letter AS (
    UPDATE agentq.job_dead_letter d
    SET redriven_as = t.job_id, redriven_at = $3, triage_status = 'manual_replay', triaged_at = $3, triaged_by = $4,
        resolution_status = 'resolved', resolved_at = coalesce(d.resolved_at, $3),
        settings = d.settings || jsonb_build_object('replay_count', coalesce((d.settings->>'replay_count')::integer, 0) + 1)
    FROM t WHERE d.dead_letter_id = t.dead_letter_id
    RETURNING d.job_id, (d.settings->>'replay_count')::integer AS replay_count
)
UPDATE agentq.job j SET replay_count = l.replay_count FROM letter l WHERE j.job_id = l.job_id
