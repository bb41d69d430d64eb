UPDATE agentq.job_dead_letter
SET triage_status = $2, triage_note = coalesce($3, triage_note), triaged_by = $4, triaged_at = $5
WHERE dead_letter_id = $1
RETURNING jsonb_build_object('ok', true, 'code', 'triaged', 'dead_letter_id', dead_letter_id, 'job_id', job_id,
    'triage_status', triage_status, 'triage_note', triage_note, 'triaged_by', triaged_by, 'triaged_at', triaged_at)
