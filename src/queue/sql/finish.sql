WITH gone AS (
    DELETE FROM agentq.job_lease WHERE job_id = $1
    RETURNING job_id, lease_token, picked_at, lease_owner, cancel_reason
), logged AS (
    INSERT INTO agentq.job_attempt_log (job_id, lease_token, began_at, ended_at, outcome, lease_owner, error_class, error)
    SELECT job_id, lease_token, picked_at, $4, $3, lease_owner, $5,
           CASE WHEN $3 = 'cancelled' THEN nullif(cancel_reason, '') ELSE $6 END
    FROM gone
), ended AS (
    INSERT INTO agentq.job_done (job_id, finished_at, picked_at, state, cancel_reason)
    SELECT j.job_id, $4, coalesce(g.picked_at, j.picked_at), $2,
           CASE WHEN $2 = 'cancelled' THEN coalesce(nullif(g.cancel_reason, ''), $8) END
    FROM agentq.job j LEFT JOIN gone g ON g.job_id = j.job_id
    WHERE j.job_id = $1
), freed AS (
    DELETE FROM agentq.job_key k USING agentq.job j
    WHERE j.job_id = $1 AND k.idempotency_key = j.idempotency_key AND k.job_id = j.job_id
)
UPDATE agentq.job j
SET attempts = j.attempts + $7, last_error = coalesce($6, j.last_error)
WHERE j.job_id = $1
