-- The queue as people see it: every job, in every state, whatever the storage. The version before has this view, too.
CREATE OR REPLACE VIEW agentq.job_queue AS
SELECT j.job_id,
       j.job_kind::text AS job_kind,
       CASE WHEN d.job_id IS NOT NULL THEN coalesce(d.state::text, 'succeeded')
            WHEN l.job_id IS NULL THEN coalesce(j.resting_state::text, 'queued')
            WHEN l.started_at IS NULL THEN 'leased'
            ELSE 'in_progress' END AS state,
       j.source_ref,
       j.target_ref,
       j.payload_ref,
       j.payload_json::jsonb AS payload_json,
       j.priority::integer AS priority,
       j.scheduled_at,
       coalesce(l.picked_at, d.picked_at, j.picked_at) AS picked_at,
       d.finished_at,
       l.lease_owner::text AS lease_owner,
       l.lease_until,
       j.attempts::integer AS attempts,
       j.max_attempts::integer AS max_attempts,
       coalesce(j.idempotency_key::text, j.job_id::text) AS idempotency_key,
       j.actor::text AS actor,
       j.run_id,
       j.last_error,
       j.created_at,
       greatest(j.created_at, j.updated_at, l.picked_at, l.started_at, l.heartbeat_at, d.finished_at) AS updated_at,
       q.queue,
       l.heartbeat_at AS last_heartbeat_at,
       j.context->>'trace_id' AS trace_id,
       j.context->>'correlation_id' AS correlation_id
FROM agentq_internal.job j
JOIN agentq.queue q ON q.queue_id = j.queue_id
LEFT JOIN agentq_internal.job_lease l ON l.job_id = j.job_id
LEFT JOIN agentq_internal.job_done d ON d.job_id = j.job_id;

COMMENT ON VIEW agentq.job_queue IS 'Every job, in every state. INSERT enqueues; UPDATE of priority, scheduled_at, max_attempts, payload_json and the refs changes a job that nobody holds; everything else is refused with the function to use.';
COMMENT ON COLUMN agentq.job_queue.job_id IS 'Time-ordered id of the job.';
COMMENT ON COLUMN agentq.job_queue.job_kind IS 'What kind of work it is; workers claim by kind.';
COMMENT ON COLUMN agentq.job_queue.state IS 'queued, leased, in_progress, succeeded, failed, retry_waiting, dead_letter, cancelled or cleaned.';
COMMENT ON COLUMN agentq.job_queue.source_ref IS 'Where the work comes from.';
COMMENT ON COLUMN agentq.job_queue.target_ref IS 'What it is about.';
COMMENT ON COLUMN agentq.job_queue.payload_ref IS 'Where the data is.';
COMMENT ON COLUMN agentq.job_queue.payload_json IS 'A small signal; content and secrets are refused.';
COMMENT ON COLUMN agentq.job_queue.priority IS 'A smaller number runs first.';
COMMENT ON COLUMN agentq.job_queue.scheduled_at IS 'It does not run before this.';
COMMENT ON COLUMN agentq.job_queue.picked_at IS 'When it was last claimed.';
COMMENT ON COLUMN agentq.job_queue.finished_at IS 'When it finished; set exactly in the finished states.';
COMMENT ON COLUMN agentq.job_queue.lease_owner IS 'Who holds it now.';
COMMENT ON COLUMN agentq.job_queue.lease_until IS 'Until when it is held.';
COMMENT ON COLUMN agentq.job_queue.attempts IS 'Attempts that ended without success.';
COMMENT ON COLUMN agentq.job_queue.max_attempts IS 'It gets at most this many attempts, and then ends in the dead letters.';
COMMENT ON COLUMN agentq.job_queue.idempotency_key IS 'Unique among unfinished jobs.';
COMMENT ON COLUMN agentq.job_queue.actor IS 'Who enqueued it.';
COMMENT ON COLUMN agentq.job_queue.run_id IS 'The caller''s own run, if any.';
COMMENT ON COLUMN agentq.job_queue.last_error IS 'Error of the last attempt that failed.';
COMMENT ON COLUMN agentq.job_queue.created_at IS 'When it was enqueued.';
COMMENT ON COLUMN agentq.job_queue.updated_at IS 'When it last changed.';
COMMENT ON COLUMN agentq.job_queue.queue IS 'The queue it belongs to.';
COMMENT ON COLUMN agentq.job_queue.last_heartbeat_at IS 'When its holder last extended its lease.';
COMMENT ON COLUMN agentq.job_queue.trace_id IS 'The trace that it is part of.';
COMMENT ON COLUMN agentq.job_queue.correlation_id IS 'What it belongs to.';

CREATE OR REPLACE FUNCTION agentq_internal.fn_job_queue_insert() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_answer jsonb;
BEGIN
    IF NEW.state IS DISTINCT FROM 'queued' OR NEW.attempts <> 0 OR num_nonnulls(NEW.picked_at,
        NEW.finished_at, NEW.lease_owner, NEW.lease_until, NEW.last_error, NEW.job_id, NEW.created_at,
        NEW.updated_at, NEW.last_heartbeat_at) > 0 THEN
        RAISE EXCEPTION 'a job enters agentq.job_queue as queued, with nothing said of its id, age, lease, attempts or end'
            USING ERRCODE = 'feature_not_supported',
                  HINT = 'Insert only what describes the work, or call agentq.fn_job_enqueue. The states after queued are reached through fn_job_claim, fn_job_ack, fn_job_fail_or_retry and fn_job_cancel.';
    END IF;
    v_answer := agentq.fn_job_enqueue(
        p_job_kind => NEW.job_kind, p_idempotency_key => NEW.idempotency_key, p_actor => NEW.actor,
        p_payload_json => NEW.payload_json, p_source_ref => NEW.source_ref, p_target_ref => NEW.target_ref,
        p_payload_ref => NEW.payload_ref, p_priority => NEW.priority, p_scheduled_at => NEW.scheduled_at,
        p_max_attempts => NEW.max_attempts, p_run_id => NEW.run_id,
        p_options => jsonb_build_object('queue', NEW.queue, 'trace_id', NEW.trace_id, 'correlation_id', NEW.correlation_id));
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
COMMENT ON FUNCTION agentq_internal.fn_job_queue_insert() IS 'Trigger: an INSERT into job_queue enqueues.';

-- The token of a lease is in the answer of its claim and nowhere else: whoever has it can end the attempt. This names the attempt
-- without it.
CREATE OR REPLACE FUNCTION agentq.fn_attempt_id(p_lease_token uuid) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT encode(substr(sha256(uuid_send(p_lease_token)), 1, 16), 'hex')::uuid
$$;
COMMENT ON FUNCTION agentq.fn_attempt_id(uuid) IS 'The id of the attempt that has this lease token, as job_attempt shows it. It tells nothing of the token.';

-- Every attempt: those that ended, the one that ended its job, and the one going on.
CREATE OR REPLACE VIEW agentq.job_attempt AS
SELECT a.job_id,
       (row_number() OVER (PARTITION BY a.job_id ORDER BY a.began_at, a.lease_token))::integer AS attempt_no,
       agentq.fn_attempt_id(a.lease_token) AS attempt_id, a.lease_owner::text AS lease_owner, a.began_at, a.ended_at, a.outcome::text AS outcome,
       a.error_class, a.error, a.error_detail, a.run->>'run_id' AS run_id, a.run->'meta' AS meta
FROM (
    SELECT job_id, lease_token, lease_owner, began_at, ended_at, outcome, error_class, error, error_detail, run
    FROM agentq_internal.job_attempt_log
    UNION ALL
    SELECT job_id, lease_token, lease_owner, picked_at, finished_at, 'succeeded', NULL, NULL, NULL, run
    FROM agentq_internal.job_done WHERE lease_token IS NOT NULL
    UNION ALL
    SELECT job_id, lease_token, lease_owner, picked_at, NULL, NULL, NULL, NULL, NULL, run
    FROM agentq_internal.job_lease
) a;
COMMENT ON VIEW agentq.job_attempt IS 'One row for every attempt at a job, whoever ended it.';
COMMENT ON COLUMN agentq.job_attempt.job_id IS 'The job.';
COMMENT ON COLUMN agentq.job_attempt.attempt_no IS '1 for the first claim, and so on.';
COMMENT ON COLUMN agentq.job_attempt.attempt_id IS 'Names it: fn_attempt_id of the token that its claim was given.';
COMMENT ON COLUMN agentq.job_attempt.lease_owner IS 'Who made it.';
COMMENT ON COLUMN agentq.job_attempt.began_at IS 'When it was claimed.';
COMMENT ON COLUMN agentq.job_attempt.ended_at IS 'When it ended; NULL: it goes on.';
COMMENT ON COLUMN agentq.job_attempt.outcome IS 'succeeded, failed, lease_expired, released, snoozed, slept, waiting, cancelled or dead_letter; NULL: it goes on.';
COMMENT ON COLUMN agentq.job_attempt.error_class IS 'Class of its error.';
COMMENT ON COLUMN agentq.job_attempt.error IS 'Its error.';
COMMENT ON COLUMN agentq.job_attempt.error_detail IS 'What else is to be known of its error, such as a stack.';
COMMENT ON COLUMN agentq.job_attempt.run_id IS 'What its worker calls its run, as fn_job_start was told.';
COMMENT ON COLUMN agentq.job_attempt.meta IS 'What its worker says of its run, as fn_job_start was told.';
