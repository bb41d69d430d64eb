-- name: start(job_id uuid, owner text, lease_token uuid, now timestamptz, run_id text, meta jsonb)
UPDATE agentq_internal.job_lease
SET started_at = coalesce(started_at, $4),
    run = CASE WHEN num_nonnulls($5, $6) = 0 THEN run
               ELSE coalesce(run, '{}') || jsonb_strip_nulls(jsonb_build_object('run_id', $5, 'meta', $6)) END
WHERE job_id = $1 AND lease_owner = $2 AND ($3 IS NULL OR lease_token = $3)
RETURNING jsonb_build_object('ok', true, 'code', 'started', 'job_id', job_id, 'state', 'in_progress',
    'lease_until', lease_until, 'cancel_requested', cancel_reason IS NOT NULL)

-- before: start(job_id uuid, owner text, lease_token uuid, now timestamptz, run_id text, meta jsonb)
UPDATE agentq_internal.job_lease
SET started_at = coalesce(started_at, $4)
WHERE job_id = $1 AND lease_owner = $2 AND ($3 IS NULL OR lease_token = $3) AND num_nulls($5, $6) >= 0
RETURNING jsonb_build_object('ok', true, 'code', 'started', 'job_id', job_id, 'state', 'in_progress',
    'lease_until', lease_until, 'cancel_requested', cancel_reason IS NOT NULL)

-- name: extend(job_id uuid, owner text, lease_token uuid, now timestamptz, seconds int4, lease_seconds int4)
UPDATE agentq_internal.job_lease l
SET lease_until = greatest(l.lease_until, $4 + make_interval(secs => coalesce($5, l.lease_seconds, q.lease_seconds, $6))),
    heartbeat_at = $4
FROM agentq_internal.job j
JOIN agentq.queue q ON q.queue_id = j.queue_id
WHERE l.job_id = $1 AND l.lease_owner = $2 AND ($3 IS NULL OR l.lease_token = $3) AND j.job_id = l.job_id
RETURNING jsonb_build_object('ok', true, 'code', 'extended', 'job_id', l.job_id, 'lease_until', l.lease_until,
    'cancel_requested', l.cancel_reason IS NOT NULL, 'cancel_reason', nullif(l.cancel_reason, ''))
    || CASE WHEN j.finish_by IS NULL THEN '{}' ELSE jsonb_build_object('finish_by', j.finish_by) END

-- before: extend(job_id uuid, owner text, lease_token uuid, now timestamptz, seconds int4, lease_seconds int4)
UPDATE agentq_internal.job_lease l
SET lease_until = greatest(l.lease_until, $4 + make_interval(secs => coalesce($5, q.lease_seconds, $6)))
FROM agentq_internal.job j
JOIN agentq.queue q ON q.queue_id = j.queue_id
WHERE l.job_id = $1 AND l.lease_owner = $2 AND ($3 IS NULL OR l.lease_token = $3) AND j.job_id = l.job_id
RETURNING jsonb_build_object('ok', true, 'code', 'extended', 'job_id', l.job_id, 'lease_until', l.lease_until,
    'cancel_requested', l.cancel_reason IS NOT NULL, 'cancel_reason', nullif(l.cancel_reason, ''))
    || CASE WHEN j.finish_by IS NULL THEN '{}' ELSE jsonb_build_object('finish_by', j.finish_by) END

-- name: keep(job_id uuid, owner text, token uuid)
SELECT lease_token, cancel_reason IS NOT NULL AS cancel_requested
FROM agentq_internal.job_lease
WHERE job_id = $1 AND ($2 IS NULL OR lease_owner = $2) AND ($3 IS NULL OR lease_token = $3)
FOR KEY SHARE

-- name: lease_of(job_id uuid, owner text, token uuid)
SELECT lease_token FROM agentq_internal.job_lease WHERE job_id = $1 AND lease_owner = $2 AND ($3 IS NULL OR lease_token = $3)

-- name: checkpoint(job_id uuid, saved_at timestamptz, checkpoint jsonb)
INSERT INTO agentq_internal.job_checkpoint (job_id, saved_at, checkpoint) VALUES ($1, $2, $3)
ON CONFLICT (job_id) DO UPDATE SET saved_at = excluded.saved_at, checkpoint = excluded.checkpoint
