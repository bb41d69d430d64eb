INSERT INTO agentq.job_dead_letter (dead_letter_id, job_id, job_kind, source_ref, target_ref, payload_ref, payload_json,
    final_error, attempts, actor, run_id, idempotency_key, moved_at, moved_by, queue)
SELECT $1, j.job_id, j.job_kind, j.source_ref, j.target_ref, j.payload_ref, j.payload_json,
       $3, j.attempts, j.actor, j.run_id, coalesce(j.idempotency_key, j.job_id::text), $5, $4, q.queue
FROM agentq.job j JOIN agentq.queue q ON q.queue_id = j.queue_id
WHERE j.job_id = $2
