UPDATE agentq.job_dead_letter
SET resolution_status = coalesce($2->>'status', resolution_status),
    assigned_to = CASE WHEN $2 ? 'assigned_to' THEN $2->>'assigned_to' ELSE assigned_to END,
    resolution_notes = CASE WHEN $2 ? 'notes' THEN $2->>'notes' ELSE resolution_notes END,
    resolved_at = CASE WHEN coalesce($2->>'status', resolution_status) NOT IN ('resolved', 'abandoned') THEN NULL
                       ELSE coalesce(resolved_at, $3) END
WHERE dead_letter_id = $1
RETURNING $4 || jsonb_build_object('resolution_status', resolution_status, 'assigned_to', assigned_to,
    'resolution_notes', resolution_notes, 'resolved_at', resolved_at)
