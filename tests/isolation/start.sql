-- What the schedules need beside agentq: starting states, what became of a job, and a clean slate.
CREATE SCHEMA iso;
-- The setup lives before the installation: nobody has switched the queue on since, which would give holders more time.
UPDATE agentq.config SET updated_at = updated_at - interval '1 day' WHERE key = 'queue.job_substrate.enabled';

-- Puts one job into a state. The setup lives an hour ago, so that leases may have run out and jobs have become due.
CREATE FUNCTION iso.start(p_number text, p_state text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    kind text := 'k' || p_number;
    options jsonb := jsonb_build_object('ordering_key', 'o' || p_number);
    ago timestamptz;
    job uuid;
    head uuid;
    letter uuid;
    claim jsonb;
BEGIN
    PERFORM set_config('agentq.clock_offset', '-3600', true);
    ago := agentq.fn_clock_now();
    IF p_state = 'blocked' THEN
        head := agentq.fn_job_enqueue(kind, 'h' || p_number, p_options => options)->>'job_id';
    END IF;
    IF p_state = 'parked' THEN
        options := options || '{"external_effects": true}';
    ELSIF p_state = 'late' THEN
        options := options || jsonb_build_object('start_by', ago + interval '1 minute');
    END IF;
    job := agentq.fn_job_enqueue(kind, 'i' || p_number, p_options => options, p_scheduled_at => CASE p_state
        WHEN 'waiting' THEN ago + interval '2 hours' WHEN 'due' THEN ago + interval '1 minute' END)->>'job_id';
    IF p_state NOT IN ('ready', 'waiting', 'due', 'late') THEN
        claim := agentq.fn_job_claim('w', kind,
            p_lease_seconds => CASE WHEN p_state IN ('expired', 'parked') THEN 60 ELSE 7200 END);
    END IF;
    IF p_state IN ('held', 'expired') THEN
        PERFORM agentq.fn_step_begin(job, 'w', 'first');
    ELSIF p_state = 'asleep' THEN
        PERFORM agentq.fn_signal_wait(job, 'w', 's' || p_number);
    ELSIF p_state = 'parked' THEN
        PERFORM set_config('agentq.clock_offset', '-1800', true);
        PERFORM agentq.fn_engine_tick('reap_leases');
    ELSIF p_state = 'succeeded' THEN
        PERFORM agentq.fn_job_ack(job, 'w');
    ELSIF p_state = 'dead' THEN
        PERFORM agentq.fn_job_move_to_dead_letter(job, 'given up');
        letter := (SELECT dead_letter_id FROM agentq.job_dead_letter WHERE job_id = job);
    END IF;
    RETURN concat_ws(' ', job, coalesce(claim->>'lease_token', gen_random_uuid()::text),
        coalesce(letter, gen_random_uuid()), coalesce(head, gen_random_uuid()));
END $$;

-- Who a job is, in an outcome.
CREATE FUNCTION iso.who(p_id uuid, p_job uuid, p_head uuid) RETURNS text LANGUAGE sql AS $$
    SELECT CASE p_id WHEN p_job THEN 'it' WHEN p_head THEN 'head' ELSE 'new' END
$$;

-- Everything that the two calls have left behind, without ids and times.
CREATE FUNCTION iso.look(p_number text, p_job uuid, p_head uuid) RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(line, '; ' ORDER BY line), 'nothing') FROM (
        SELECT concat_ws(' ', iso.who(job_id, p_job, p_head), state, 'attempts', attempts, 'priority', priority,
                   lease_owner, CASE WHEN scheduled_at > agentq.fn_clock_now() THEN 'later' END) AS line
        FROM agentq.job_queue
        UNION ALL SELECT 'parked ' || iso.who(job_id, p_job, p_head) FROM agentq_internal.job
                  WHERE parked IS NOT NULL AND job_id NOT IN (SELECT job_id FROM agentq_internal.job_done)
        UNION ALL SELECT concat_ws(' ', 'lease', CASE WHEN cancel_reason IS NOT NULL THEN 'to cancel' END,
                   CASE WHEN lease_until < agentq.fn_clock_now() THEN 'expired' END) FROM agentq_internal.job_lease
        UNION ALL SELECT 'ended ' || outcome FROM agentq_internal.job_attempt_log
        UNION ALL SELECT concat_ws(' ', 'key', left(idempotency_key, 1), iso.who(job_id, p_job, p_head)) FROM agentq_internal.job_key
        UNION ALL SELECT 'first of its order ' || iso.who(job_id, p_job, p_head) FROM agentq_internal.job_order
        UNION ALL SELECT concat_ws(' ', 'letter', iso.who(job_id, p_job, p_head), triage_status,
                   CASE WHEN redriven_as IS NOT NULL THEN 'redriven' END) FROM agentq.job_dead_letter
        UNION ALL SELECT 'checkpoint ' || checkpoint::text FROM agentq_internal.job_checkpoint
        UNION ALL SELECT concat_ws(' ', 'step', CASE WHEN kind = 'step' THEN name ELSE kind END, position, status, attempts)
                  FROM agentq_internal.job_step
        UNION ALL SELECT concat_ws(' ', 'action', status, attempts) FROM agentq.action
        UNION ALL SELECT concat_ws(' ', 'signal', CASE WHEN taken_by IS NULL THEN 'kept' ELSE 'taken' END) FROM agentq.signal
        UNION ALL SELECT 'wait' FROM agentq.signal_wait
        UNION ALL SELECT 'UNSOUND ' || problem FROM agentq.fn_queue_verify()
    ) t
$$;

-- One schedule leaves nothing for the next.
CREATE FUNCTION iso.clear() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM agentq_internal.job;
    DELETE FROM agentq_internal.job_order_due;
    DELETE FROM agentq_internal.job_ready;
    DELETE FROM agentq_internal.job_waiting;
    DELETE FROM agentq_internal.job_line;
    DELETE FROM agentq_internal.job_lease;
    DELETE FROM agentq_internal.job_done;
    DELETE FROM agentq_internal.job_attempt_log;
    DELETE FROM agentq_internal.job_key;
    DELETE FROM agentq_internal.job_order;
    DELETE FROM agentq_internal.job_deadline;
    DELETE FROM agentq_internal.job_checkpoint;
    DELETE FROM agentq.job_dead_letter;
    DELETE FROM agentq_internal.job_step;
    DELETE FROM agentq.action;
    DELETE FROM agentq.signal;
    DELETE FROM agentq.signal_wait;
    DELETE FROM agentq_internal.signal_channel;
END $$;
