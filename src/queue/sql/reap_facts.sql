SELECT j.external_effects IS TRUE,
       (SELECT count(*) FROM agentq.job_attempt_log a
        WHERE a.job_id = j.job_id AND (a.outcome = 'lease_expired' OR a.error_class = 'worker_died')
          AND NOT EXISTS (SELECT FROM agentq.job_attempt_log b
                          WHERE b.job_id = a.job_id AND b.ended_at > a.ended_at
                            AND b.outcome <> 'lease_expired' AND b.error_class IS DISTINCT FROM 'worker_died'))
FROM agentq.job j WHERE j.job_id = $1
