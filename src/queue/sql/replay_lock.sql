WITH letter AS (
    SELECT dead_letter_id FROM agentq.job_dead_letter WHERE job_id = $1 FOR UPDATE
)
SELECT d.job_id FROM agentq.job_done d WHERE d.job_id = $1 AND (SELECT count(*) FROM letter) >= 0 FOR UPDATE
