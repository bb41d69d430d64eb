-- What an INSERT, UPDATE or DELETE of the queue as people see it does.
ALTER VIEW agentq.job_queue ALTER COLUMN state SET DEFAULT 'queued';
ALTER VIEW agentq.job_queue ALTER COLUMN payload_json SET DEFAULT '{}';
ALTER VIEW agentq.job_queue ALTER COLUMN attempts SET DEFAULT 0;
ALTER VIEW agentq.job_queue ALTER COLUMN queue SET DEFAULT 'default';

CREATE FUNCTION agentq_internal.fn_job_queue_update() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_old     jsonb := to_jsonb(OLD);
    v_new     jsonb := to_jsonb(NEW);
    v_changes jsonb;
    v_refused text;
BEGIN
    SELECT jsonb_object_agg(key, value), string_agg(key, ', ') FILTER (WHERE key NOT IN
            ('priority', 'scheduled_at', 'max_attempts', 'payload_json', 'source_ref', 'target_ref', 'payload_ref'))
    INTO v_changes, v_refused
    FROM jsonb_each(v_new) WHERE value IS DISTINCT FROM v_old->key;
    IF v_refused IS NOT NULL THEN
        RAISE EXCEPTION 'agentq.job_queue does not let you set % of job %', v_refused, OLD.job_id
            USING ERRCODE = 'feature_not_supported',
                  HINT = 'Use fn_job_cancel to cancel, fn_job_move_to_dead_letter to give up, fn_job_ack or fn_job_fail_or_retry to finish, fn_job_heartbeat or fn_job_release for the lease. An UPDATE may set priority, scheduled_at, max_attempts, payload_json and the refs.';
    END IF;
    IF v_changes IS NOT NULL THEN
        PERFORM agentq.fn_job_change(OLD.job_id, v_changes);
    END IF;
    SELECT * INTO NEW FROM agentq.job_queue WHERE job_id = OLD.job_id;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION agentq_internal.fn_job_queue_update() IS 'Trigger: an UPDATE of job_queue changes a job that nobody holds.';

CREATE FUNCTION agentq_internal.fn_job_queue_delete() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'job % cannot be deleted from agentq.job_queue', OLD.job_id
        USING ERRCODE = 'feature_not_supported',
              HINT = 'Use agentq.fn_job_cancel for a job that must not run, and agentq.fn_job_purge to remove finished jobs.';
END $$;
COMMENT ON FUNCTION agentq_internal.fn_job_queue_delete() IS 'Trigger: refuses a DELETE from job_queue and says what to use.';

CREATE TRIGGER job_queue_insert INSTEAD OF INSERT ON agentq.job_queue
    FOR EACH ROW EXECUTE FUNCTION agentq_internal.fn_job_queue_insert();
CREATE TRIGGER job_queue_update INSTEAD OF UPDATE ON agentq.job_queue
    FOR EACH ROW EXECUTE FUNCTION agentq_internal.fn_job_queue_update();
CREATE TRIGGER job_queue_delete INSTEAD OF DELETE ON agentq.job_queue
    FOR EACH ROW EXECUTE FUNCTION agentq_internal.fn_job_queue_delete();
COMMENT ON TRIGGER job_queue_insert ON agentq.job_queue IS 'An INSERT enqueues.';
COMMENT ON TRIGGER job_queue_update ON agentq.job_queue IS 'An UPDATE changes a job that nobody holds.';
COMMENT ON TRIGGER job_queue_delete ON agentq.job_queue IS 'A DELETE is refused.';
