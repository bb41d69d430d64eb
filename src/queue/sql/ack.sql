WITH gone AS (
    DELETE FROM agentq.job_lease
    WHERE job_id = $1 AND lease_owner = $2 AND ($3 IS NULL OR lease_token = $3)
    RETURNING job_id, lease_token, picked_at, lease_owner, keyed
)
INSERT INTO agentq.job_done (job_id, lease_token, finished_at, picked_at, state, outcome, lease_owner, result)
SELECT job_id, lease_token, $4, picked_at, 'succeeded', 'succeeded', lease_owner, $5 FROM gone
RETURNING jsonb_build_object('ok', true, 'code', 'succeeded', 'job_id', job_id, 'state', 'succeeded', 'finished_at', finished_at),
    (SELECT keyed FROM gone)
