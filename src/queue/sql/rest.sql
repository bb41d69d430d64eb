WITH gone AS (
    DELETE FROM agentq.job_lease WHERE job_id = $1
    RETURNING job_id, lease_token, picked_at, lease_owner
), logged AS (
    INSERT INTO agentq.job_attempt_log (job_id, lease_token, began_at, ended_at, outcome, lease_owner, error_class, error)
    SELECT job_id, lease_token, picked_at, $3, $2, lease_owner, $4, $5 FROM gone
)
UPDATE agentq.job j
SET attempts = j.attempts + $6,
    last_error = coalesce($5, j.last_error),
    picked_at = gone.picked_at,
    scheduled_at = $7,
    resting_state = $8
FROM gone
WHERE j.job_id = gone.job_id
