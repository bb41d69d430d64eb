-- 0.2.0 shows the depth of each queue, and refuses an INSERT into job_queue that sets a job's age.

CREATE OR REPLACE FUNCTION agentq.fn_job_queue_insert() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_answer jsonb;
BEGIN
    IF NEW.state IS DISTINCT FROM 'queued' OR NEW.attempts <> 0 OR num_nonnulls(NEW.picked_at,
        NEW.finished_at, NEW.lease_owner, NEW.lease_until, NEW.last_error, NEW.job_id, NEW.created_at,
        NEW.updated_at) > 0 THEN
        RAISE EXCEPTION 'a job enters agentq.job_queue as queued, with nothing said of its id, age, lease, attempts or end'
            USING ERRCODE = 'feature_not_supported',
                  HINT = 'Insert only what describes the work, or call agentq.fn_job_enqueue. The states after queued are reached through fn_job_claim, fn_job_ack, fn_job_fail_or_retry and fn_job_cancel.';
    END IF;
    v_answer := agentq.fn_job_enqueue(
        p_job_kind => NEW.job_kind, p_idempotency_key => NEW.idempotency_key, p_actor => NEW.actor,
        p_payload_json => NEW.payload_json, p_source_ref => NEW.source_ref, p_target_ref => NEW.target_ref,
        p_payload_ref => NEW.payload_ref, p_priority => NEW.priority, p_scheduled_at => NEW.scheduled_at,
        p_max_attempts => NEW.max_attempts, p_run_id => NEW.run_id,
        p_options => jsonb_build_object('queue', NEW.queue));
    IF NOT (v_answer->>'ok')::boolean THEN
        RAISE EXCEPTION '%', v_answer->>'message'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = v_answer->>'hint';
    ELSIF (v_answer->>'duplicate')::boolean THEN
        RAISE EXCEPTION 'idempotency_key "%" is in use by the unfinished job %', NEW.idempotency_key, v_answer->>'job_id'
            USING ERRCODE = 'unique_violation',
                  HINT = 'agentq.fn_job_enqueue answers with the first job instead of an error.';
    END IF;
    SELECT * INTO NEW FROM agentq.job_queue WHERE job_id = (v_answer->>'job_id')::uuid;
    RETURN NEW;
END $$;

CREATE VIEW agentq.v_queue_depth AS
SELECT q.queue,
       q.paused_at IS NOT NULL AS paused,
       r.jobs AS ready,
       w.jobs AS waiting,
       l.jobs AS held,
       r.oldest AS oldest_ready_at,
       extract(epoch FROM (agentq.fn_clock_now() - r.oldest))::numeric(20, 3) AS oldest_ready_seconds,
       w.next AS next_due_at
FROM agentq.queue q
CROSS JOIN LATERAL (SELECT count(*) AS jobs, min(scheduled_at) AS oldest FROM agentq.job_ready
                    WHERE any_queue_id = q.queue_id) r
CROSS JOIN LATERAL (SELECT count(*) AS jobs, min(w.scheduled_at) AS next
                    FROM agentq.job_waiting w JOIN agentq.job j ON j.job_id = w.job_id WHERE j.queue_id = q.queue_id) w
CROSS JOIN LATERAL (SELECT count(*) AS jobs
                    FROM agentq.job_lease l JOIN agentq.job j ON j.job_id = l.job_id WHERE j.queue_id = q.queue_id) l;
COMMENT ON VIEW agentq.v_queue_depth IS 'Each queue with its jobs that may run now, later, or are held, and how long the oldest has waited.';
COMMENT ON COLUMN agentq.v_queue_depth.queue IS 'The queue.';
COMMENT ON COLUMN agentq.v_queue_depth.paused IS 'Whether it gives out no jobs.';
COMMENT ON COLUMN agentq.v_queue_depth.ready IS 'Jobs that may run now.';
COMMENT ON COLUMN agentq.v_queue_depth.waiting IS 'Jobs whose time has not come, or has come since the last claim.';
COMMENT ON COLUMN agentq.v_queue_depth.held IS 'Jobs that a worker holds.';
COMMENT ON COLUMN agentq.v_queue_depth.oldest_ready_at IS 'Since when the oldest ready job may run.';
COMMENT ON COLUMN agentq.v_queue_depth.oldest_ready_seconds IS 'How long that is.';
COMMENT ON COLUMN agentq.v_queue_depth.next_due_at IS 'When the next waiting job may run.';

INSERT INTO agentq.access_rule (level, privilege, object)
VALUES ('reader', 'SELECT', 'v_queue_depth'), ('operator', 'SELECT', 'v_queue_depth');
-- Roles that have a level get what it has gained.
UPDATE agentq.access_grant SET granted_at = granted_at WHERE level IN ('reader', 'operator');
