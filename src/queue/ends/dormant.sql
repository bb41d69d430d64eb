-- name: waits_for(job_id uuid, why jsonb)
UPDATE agentq_internal.job SET waits_for = $2 || jsonb_build_object('at', scheduled_at) WHERE job_id = $1

-- name: wake(job_id uuid, now timestamptz)
WITH asleep AS MATERIALIZED (
    SELECT w.scheduled_at, w.job_id
    FROM agentq_internal.job j JOIN agentq_internal.job_waiting w ON w.scheduled_at = j.scheduled_at AND w.job_id = j.job_id
    WHERE j.job_id = $1 AND j.parked IS NULL AND coalesce(j.resting_state::text, 'queued') = 'queued'
      AND (j.waits_for->>'at')::timestamptz = j.scheduled_at AND NOT j.waits_for ? 'was'
    FOR UPDATE OF w SKIP LOCKED
), gone AS (
    DELETE FROM agentq_internal.job_waiting w USING asleep a
    WHERE w.scheduled_at = a.scheduled_at AND w.job_id = a.job_id
    RETURNING w.job_id, w.scheduled_at
)
UPDATE agentq_internal.job j SET scheduled_at = $2, waits_for = NULL
FROM gone WHERE j.job_id = gone.job_id
RETURNING j.job_id, j.queue_id, j.job_kind::text, j.priority::integer, j.scheduled_at, gone.scheduled_at AS slept_until

-- name: asleep(job_id uuid)
SELECT j.job_id
FROM agentq_internal.job j JOIN agentq_internal.job_waiting w ON w.scheduled_at = j.scheduled_at AND w.job_id = j.job_id
WHERE j.job_id = $1 AND j.parked IS NULL AND coalesce(j.resting_state::text, 'queued') = 'queued'
  AND (j.waits_for->>'at')::timestamptz = j.scheduled_at AND NOT j.waits_for ? 'was'

-- name: napped(job_id uuid, token uuid)
SELECT job_id FROM agentq_internal.job_attempt_log WHERE job_id = $1 AND lease_token = $2 AND outcome IN ('slept', 'waiting')

-- name: suspend(job_id uuid, until timestamptz, why jsonb)
UPDATE agentq_internal.job
SET scheduled_at = $2, resting_state = NULL,
    waits_for = $3 || jsonb_build_object('at', $2, 'was', jsonb_build_object('at', scheduled_at, 'state', resting_state))
WHERE job_id = $1

-- name: is_asleep(job_id uuid, now timestamptz)
SELECT job_id FROM agentq_internal.job WHERE job_id = $1 AND (waits_for->>'at')::timestamptz = scheduled_at AND scheduled_at > $2

-- name: release(job_id uuid, gate text)
WITH asleep AS MATERIALIZED (
    SELECT w.scheduled_at, w.job_id
    FROM agentq_internal.job j JOIN agentq_internal.job_waiting w ON w.scheduled_at = j.scheduled_at AND w.job_id = j.job_id
    WHERE j.job_id = $1 AND j.waits_for->>'gate' = $2 AND (j.waits_for->>'at')::timestamptz = j.scheduled_at
    FOR UPDATE OF w SKIP LOCKED
), gone AS (
    DELETE FROM agentq_internal.job_waiting w USING asleep a
    WHERE w.scheduled_at = a.scheduled_at AND w.job_id = a.job_id
    RETURNING w.job_id, w.scheduled_at
)
UPDATE agentq_internal.job j
SET scheduled_at = (j.waits_for->'was'->>'at')::timestamptz, resting_state = j.waits_for->'was'->>'state', waits_for = NULL
FROM gone WHERE j.job_id = gone.job_id
RETURNING j.job_id, j.queue_id, j.job_kind::text, j.priority::integer, j.scheduled_at, gone.scheduled_at AS slept_until
