-- name: job_state(job_id uuid)
SELECT state FROM agentq.job_queue WHERE job_id = $1

-- name: lost_lease(job_id uuid, owner text, token uuid)
SELECT q.state,
       EXISTS (SELECT FROM agentq_internal.job_done d
               WHERE d.job_id = $1 AND coalesce(d.state, 'succeeded') = 'succeeded'
                 AND ($2 IS NULL OR d.lease_owner = $2) AND ($3 IS NULL OR d.lease_token = $3)) AS is_own_end,
       EXISTS (SELECT FROM agentq_internal.job_lease l WHERE l.job_id = $1) AS is_held,
       EXISTS (SELECT FROM agentq_internal.job_attempt_log a
               WHERE a.job_id = $1 AND ($2 IS NULL OR a.lease_owner = $2) AND ($3 IS NULL OR a.lease_token = $3)) AS was_held,
       -- Why its own attempt is over, if it has not ended that itself.
       (SELECT jsonb_build_object('error_class', a.error_class, 'error', left(a.error, 500))
        FROM agentq_internal.job_attempt_log a
        WHERE a.job_id = $1 AND ($2 IS NULL OR a.lease_owner = $2) AND ($3 IS NULL OR a.lease_token = $3) AND a.error_class IS NOT NULL
        ORDER BY a.ended_at DESC LIMIT 1) AS verdict
FROM agentq.job_queue q WHERE q.job_id = $1
