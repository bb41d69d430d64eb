SELECT d.dead_letter_id, d.job_id, d.redriven_as, jsonb_strip_nulls(jsonb_build_object('job_kind', d.job_kind,
           'idempotency_key', nullif(d.idempotency_key, d.job_id::text), 'actor', d.actor, 'source_ref', d.source_ref,
           'target_ref', d.target_ref, 'payload_ref', d.payload_ref, 'run_id', d.run_id, 'queue', d.queue))
       || (d.settings - ARRAY['replay_count', 'made_at']) || jsonb_build_object('payload_json', d.payload_json),
       coalesce((d.settings->>'replay_count')::integer, 0), (d.settings->>'made_at')::timestamptz
FROM agentq.job_dead_letter d
WHERE ($3 OR d.redriven_as IS NULL)
  AND (NOT $1 ? 'job_kind' OR d.job_kind = $1->>'job_kind')
  AND (NOT $1 ? 'queue' OR d.queue = $1->>'queue')
  AND (NOT $1 ? 'reason' OR d.reason = $1->>'reason')
  AND (NOT $1 ? 'error_class' OR d.error_class = $1->>'error_class')
  AND (NOT $1 ? 'triage_status' OR d.triage_status = $1->>'triage_status')
  AND (NOT $1 ? 'resolution_status' OR d.resolution_status = $1->>'resolution_status')
  AND (NOT $1 ? 'assigned_to' OR d.assigned_to = $1->>'assigned_to')
  AND (NOT $1 ? 'moved_after' OR d.moved_at > ($1->>'moved_after')::timestamptz)
  AND (NOT $1 ? 'moved_before' OR d.moved_at < ($1->>'moved_before')::timestamptz)
  AND (NOT $1 ? 'job_ids' OR lower($1->>'job_ids')::jsonb ? d.job_id::text)
ORDER BY d.job_id
LIMIT $2
FOR UPDATE SKIP LOCKED
