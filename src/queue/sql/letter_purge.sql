WITH old AS (
    SELECT d.dead_letter_id FROM agentq.job_dead_letter d
    WHERE d.moved_at < $1
      AND CASE WHEN $2 IS NULL THEN d.triage_status = 'closed' OR d.resolution_status IN ('resolved', 'abandoned')
               ELSE (NOT $2 ? 'job_kind' OR d.job_kind = $2->>'job_kind')
  AND (NOT $2 ? 'queue' OR d.queue = $2->>'queue')
  AND (NOT $2 ? 'reason' OR d.reason = $2->>'reason')
  AND (NOT $2 ? 'error_class' OR d.error_class = $2->>'error_class')
  AND (NOT $2 ? 'triage_status' OR d.triage_status = $2->>'triage_status')
  AND (NOT $2 ? 'resolution_status' OR d.resolution_status = $2->>'resolution_status')
  AND (NOT $2 ? 'assigned_to' OR d.assigned_to = $2->>'assigned_to')
  AND (NOT $2 ? 'moved_after' OR d.moved_at > ($2->>'moved_after')::timestamptz)
  AND (NOT $2 ? 'moved_before' OR d.moved_at < ($2->>'moved_before')::timestamptz)
  AND (NOT $2 ? 'job_ids' OR lower($2->>'job_ids')::jsonb ? d.job_id::text) END
    LIMIT $3
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM agentq.job_dead_letter d USING old WHERE d.dead_letter_id = old.dead_letter_id RETURNING 1
)
SELECT jsonb_build_object('ok', true, 'code', 'purged', 'purged', count(*), 'more', count(*) = $3) FROM gone
