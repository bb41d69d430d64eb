WITH letter AS (
    UPDATE agentq.job_dead_letter
    SET redriven_as = $2, redriven_at = $4, triage_status = 'manual_replay',
        resolution_status = 'resolved', resolved_at = coalesce(resolved_at, $4),
        settings = settings || jsonb_build_object('replay_count', $3)
    WHERE job_id = $1
)
UPDATE agentq.job SET replay_count = $3 WHERE job_id = $1
