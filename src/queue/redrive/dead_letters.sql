-- name: triage(letter uuid, status text, note text, by text, now timestamptz)
UPDATE agentq.job_dead_letter
SET triage_status = $2, triage_note = coalesce($3, triage_note), triaged_by = $4, triaged_at = $5
WHERE dead_letter_id = $1
RETURNING jsonb_build_object('ok', true, 'code', 'triaged', 'dead_letter_id', dead_letter_id, 'job_id', job_id,
    'triage_status', triage_status, 'triage_note', triage_note, 'triaged_by', triaged_by, 'triaged_at', triaged_at)

-- name: resolve(letter uuid, resolution jsonb, now timestamptz, answer jsonb)
UPDATE agentq.job_dead_letter
SET resolution_status = coalesce($2->>'status', resolution_status),
    assigned_to = CASE WHEN $2 ? 'assigned_to' THEN $2->>'assigned_to' ELSE assigned_to END,
    resolution_notes = CASE WHEN $2 ? 'notes' THEN $2->>'notes' ELSE resolution_notes END,
    resolved_at = CASE WHEN coalesce($2->>'status', resolution_status) NOT IN ('resolved', 'abandoned') THEN NULL
                       ELSE coalesce(resolved_at, $3) END
WHERE dead_letter_id = $1
RETURNING $4 || jsonb_build_object('resolution_status', resolution_status, 'assigned_to', assigned_to,
    'resolution_notes', resolution_notes, 'resolved_at', resolved_at)

-- name: letter(letter uuid)
SELECT d.dead_letter_id, d.job_id, d.redriven_as, jsonb_strip_nulls(jsonb_build_object('job_kind', d.job_kind,
           'idempotency_key', nullif(d.idempotency_key, d.job_id::text), 'actor', d.actor, 'source_ref', d.source_ref,
           'target_ref', d.target_ref, 'payload_ref', d.payload_ref, 'run_id', d.run_id, 'queue', d.queue))
       || (d.settings - ARRAY['replay_count', 'made_at', 'unsafe_steps']) || jsonb_build_object('payload_json', d.payload_json) AS job,
       CASE WHEN d.settings ? 'unsafe_steps' THEN ARRAY(SELECT jsonb_array_elements_text(d.settings->'unsafe_steps'))
            WHEN d.settings->>'external_effects' = 'true' THEN '{the job as a whole}' ELSE '{}' END AS unsafe_steps,
       coalesce((d.settings->>'replay_count')::integer, 0) AS replay_count, (d.settings->>'made_at')::timestamptz AS made_at
FROM agentq.job_dead_letter d
WHERE d.dead_letter_id = $1
FOR UPDATE

-- name: done_lock(job_id uuid)
SELECT job_id FROM agentq_internal.job_done WHERE job_id = $1 FOR UPDATE

-- name: letters(filter jsonb, most int8, again bool)
SELECT d.dead_letter_id, d.job_id, d.redriven_as, jsonb_strip_nulls(jsonb_build_object('job_kind', d.job_kind,
           'idempotency_key', nullif(d.idempotency_key, d.job_id::text), 'actor', d.actor, 'source_ref', d.source_ref,
           'target_ref', d.target_ref, 'payload_ref', d.payload_ref, 'run_id', d.run_id, 'queue', d.queue))
       || (d.settings - ARRAY['replay_count', 'made_at', 'unsafe_steps']) || jsonb_build_object('payload_json', d.payload_json) AS job,
       CASE WHEN d.settings ? 'unsafe_steps' THEN ARRAY(SELECT jsonb_array_elements_text(d.settings->'unsafe_steps'))
            WHEN d.settings->>'external_effects' = 'true' THEN '{the job as a whole}' ELSE '{}' END AS unsafe_steps,
       coalesce((d.settings->>'replay_count')::integer, 0) AS replay_count, (d.settings->>'made_at')::timestamptz AS made_at
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

-- name: redriven(ids uuid[], jobs uuid[], now timestamptz, session_user text)
WITH t AS (
    SELECT * FROM unnest($1, $2) AS t (dead_letter_id, job_id)
), letter AS (
    UPDATE agentq.job_dead_letter d
    SET redriven_as = t.job_id, redriven_at = $3, triage_status = 'manual_replay', triaged_at = $3, triaged_by = $4,
        resolution_status = 'investigating', resolved_at = NULL,
        settings = d.settings || jsonb_build_object('replay_count', coalesce((d.settings->>'replay_count')::integer, 0) + 1)
    FROM t WHERE d.dead_letter_id = t.dead_letter_id
    RETURNING d.job_id, (d.settings->>'replay_count')::integer AS replay_count
)
UPDATE agentq_internal.job j SET replay_count = l.replay_count FROM letter l WHERE j.job_id = l.job_id

-- name: letter_purge(before timestamptz, filter jsonb, most int8)
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
