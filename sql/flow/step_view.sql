CREATE OR REPLACE VIEW agentq.v_job_step AS
SELECT s.job_id, s.position, s.name, s.occurrence, s.kind,
       CASE WHEN s.status <> 'begun' THEN s.status
            WHEN s.kind = 'sleep' THEN 'sleeping'
            WHEN s.kind = 'signal' THEN 'waiting'
            WHEN l.job_id IS NOT NULL THEN 'running'
            WHEN s.idempotent THEN 'interrupted'
            ELSE 'unknown' END AS status,
       s.attempts, s.idempotent, s.began_at, s.ended_at, s.until_at, s.result, s.error, s.inputs_hash, agentq.fn_attempt_id(s.lease_token) AS attempt_id
FROM agentq_internal.job_step s
LEFT JOIN agentq_internal.job_lease l ON l.job_id = s.job_id AND l.lease_token = s.lease_token;
COMMENT ON VIEW agentq.v_job_step IS 'The steps of every job, as they stand.';
COMMENT ON COLUMN agentq.v_job_step.job_id IS 'The job.';
COMMENT ON COLUMN agentq.v_job_step.position IS 'The order in which the steps of the job were first begun, from 1.';
COMMENT ON COLUMN agentq.v_job_step.name IS 'Name of the step.';
COMMENT ON COLUMN agentq.v_job_step.occurrence IS '1, or which turn of a loop it is.';
COMMENT ON COLUMN agentq.v_job_step.kind IS 'step, sleep or signal.';
COMMENT ON COLUMN agentq.v_job_step.status IS 'done or failed; running, while the attempt that began it holds the job; interrupted: it will run again; unknown: it must not run twice, and nobody knows whether it was done; sleeping, waiting.';
COMMENT ON COLUMN agentq.v_job_step.attempts IS 'How often it was begun.';
COMMENT ON COLUMN agentq.v_job_step.idempotent IS 'Whether it may be run again when nobody knows whether it was done.';
COMMENT ON COLUMN agentq.v_job_step.began_at IS 'When it was last begun.';
COMMENT ON COLUMN agentq.v_job_step.ended_at IS 'When it was done, or failed.';
COMMENT ON COLUMN agentq.v_job_step.until_at IS 'Until when the job sleeps or waits; NULL: without end.';
COMMENT ON COLUMN agentq.v_job_step.result IS 'What it gave.';
COMMENT ON COLUMN agentq.v_job_step.error IS 'Why it failed.';
COMMENT ON COLUMN agentq.v_job_step.inputs_hash IS 'SHA-256 of its inputs in canonical form.';
COMMENT ON COLUMN agentq.v_job_step.attempt_id IS 'The attempt that last began it, as in job_attempt.';
