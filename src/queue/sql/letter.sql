SELECT d.dead_letter_id, d.job_id, d.redriven_as, jsonb_strip_nulls(jsonb_build_object('job_kind', d.job_kind,
           'idempotency_key', nullif(d.idempotency_key, d.job_id::text), 'actor', d.actor, 'source_ref', d.source_ref,
           'target_ref', d.target_ref, 'payload_ref', d.payload_ref, 'run_id', d.run_id, 'queue', d.queue))
       || (d.settings - ARRAY['replay_count', 'made_at']) || jsonb_build_object('payload_json', d.payload_json),
       coalesce((d.settings->>'replay_count')::integer, 0), (d.settings->>'made_at')::timestamptz
FROM agentq.job_dead_letter d
WHERE d.dead_letter_id = $1
FOR UPDATE
