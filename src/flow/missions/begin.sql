-- name: step_begin(id uuid, job uuid, mission uuid, items int4, shard int4, at timestamptz)
UPDATE agentq_internal.mission_step
SET status = 'queued', job_id = $2, child_id = $3, item_count = $4, shard = $5, queued_at = $6
WHERE step_id = $1 AND status = 'waiting'
