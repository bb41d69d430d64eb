-- Why a job waits, and how the whole queue stands.
CREATE OR REPLACE FUNCTION agentq.fn_capable_workers(p_requires text[]) RETURNS TABLE (executor_name text, last_tick_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT h.executor_name, h.last_tick_at FROM agentq.queue_heartbeat h
    WHERE agentq_internal.fn_bounded('fn_capable_workers', 'p_requires', octet_length(array_to_string(p_requires, '')), cardinality(p_requires))
      AND agentq.fn_clock_now() - h.last_tick_at
            <= make_interval(secs => agentq.fn_config_get('queue.heartbeat.stale_threshold_seconds')::integer)
      AND h.metadata->'capabilities' @> to_jsonb(coalesce(p_requires, '{}'))
    ORDER BY h.executor_name
$$;
COMMENT ON FUNCTION agentq.fn_capable_workers(text[]) IS 'The executors that are alive and have announced all of these capabilities with their heartbeat.';

CREATE OR REPLACE FUNCTION agentq.fn_backpressure_status(p_queue text DEFAULT NULL) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_now      timestamptz := agentq.fn_clock_now();
    v_queue_id integer;
    v_rule     agentq.limit_rule;
    v_active   bigint;
    v_ready    bigint;
    v_waiting  bigint;
    v_oldest   timestamptz;
    v_rate     double precision;
    v_usage    double precision;
    v_ratio    double precision;
    v_level    text;
    v_vacuum   record;
    v_advice   text[] := '{}';
BEGIN
    PERFORM agentq_internal.fn_bounded('fn_backpressure_status', 'p_queue', octet_length(p_queue));
    IF p_queue IS NOT NULL THEN
        SELECT queue_id INTO v_queue_id FROM agentq.queue WHERE queue = p_queue;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no queue "%"', p_queue
                USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out for the whole server, or name one of agentq.queue.';
        END IF;
    END IF;
    SELECT * INTO v_rule FROM agentq.limit_rule
    WHERE limit_key = agentq_internal.fn_limit_rule_of(CASE WHEN p_queue IS NULL THEN 'global' ELSE 'queue:' || p_queue END);
    SELECT count(*) INTO v_active FROM agentq_internal.job_lease l
    WHERE v_queue_id IS NULL OR EXISTS (SELECT FROM agentq_internal.job j WHERE j.job_id = l.job_id AND j.queue_id = v_queue_id);
    SELECT count(*), min(scheduled_at) INTO v_ready, v_oldest FROM (
        SELECT any_queue_id, scheduled_at FROM agentq_internal.job_ready
        UNION ALL SELECT any_queue_id, scheduled_at FROM agentq_internal.job_line) r
    WHERE v_queue_id IS NULL OR r.any_queue_id = v_queue_id;
    SELECT count(*) INTO v_waiting FROM agentq_internal.job_waiting w
    WHERE v_queue_id IS NULL OR EXISTS (SELECT FROM agentq_internal.job j WHERE j.job_id = w.job_id AND j.queue_id = v_queue_id);
    -- What has been finished lately, by the metrics of the last minutes, or by the last minute itself.
    SELECT sum(finished) / nullif(sum(seconds), 0) INTO v_rate FROM (
        SELECT sum(m.finished) AS finished, max(m.period_seconds) AS seconds FROM agentq.metric m
        WHERE m.taken_at > v_now - interval '5 minutes' AND (p_queue IS NULL OR m.queue = p_queue) GROUP BY m.taken_at) m;
    IF v_rate IS NULL THEN
        SELECT count(*) / 60.0 INTO v_rate FROM agentq_internal.job_done d
        WHERE d.finished_at > v_now - interval '1 minute'
          AND (v_queue_id IS NULL OR EXISTS (SELECT FROM agentq_internal.job j WHERE j.job_id = d.job_id AND j.queue_id = v_queue_id));
    END IF;
    v_active := v_active + coalesce(v_rule.taken_by_hand, 0);
    v_usage := 100.0 * v_active / nullif(v_rule.max_concurrent, 0);
    v_ratio := (v_ready + v_waiting + coalesce(v_rule.pending_by_hand, 0))::double precision / nullif(v_rule.max_pending, 0);
    v_level := CASE WHEN v_usage > 90 OR v_ratio > 0.8 THEN 'critical'
                    WHEN v_usage > 70 OR v_ratio > 0.5 THEN 'elevated' ELSE 'normal' END;
    SELECT * INTO v_vacuum FROM agentq.fn_vacuum_state();
    IF v_usage > 70 THEN
        v_advice := v_advice || format('%s of %s slots are taken: add workers and raise the limit, or slow the producers down', v_active, v_rule.max_concurrent);
    END IF;
    IF v_ratio > 0.5 THEN
        v_advice := v_advice || format('%s of at most %s jobs wait: slow the producers down', v_ready + v_waiting, v_rule.max_pending);
    END IF;
    IF v_ready > 0 AND coalesce(v_rate, 0) = 0 THEN
        v_advice := v_advice || 'jobs wait and none has been finished lately: look whether workers run'::text;
    END IF;
    IF v_vacuum.dead_rows > 10000 AND v_vacuum.held_by IS NOT NULL THEN
        v_advice := v_advice || format('%s dead rows cannot be removed because of %s: end its transaction', v_vacuum.dead_rows, v_vacuum.held_by);
    END IF;
    RETURN jsonb_build_object('ok', true, 'code', 'status', 'level', v_level, 'queue', p_queue,
        'global_utilization', round(v_usage::numeric, 1), 'active', v_active, 'max_concurrent', v_rule.max_concurrent,
        'queue_depth', v_ready + v_waiting, 'ready', v_ready, 'scheduled', v_waiting, 'max_pending', v_rule.max_pending,
        'oldest_ready_seconds', round(extract(epoch FROM v_now - v_oldest), 3), 'finished_per_second', round(v_rate::numeric, 3),
        'estimated_wait_time_seconds', CASE WHEN v_ready = 0 THEN 0 ELSE round((v_ready / nullif(v_rate, 0))::numeric, 1) END,
        'dead_rows', v_vacuum.dead_rows,
        'vacuum_held_by', CASE WHEN v_vacuum.dead_rows > 10000 THEN v_vacuum.held_by END,
        'recommendations', to_jsonb(v_advice));
END $$;
COMMENT ON FUNCTION agentq.fn_backpressure_status(text) IS 'How hard the queues, or one of them, are pressed: normal, elevated or critical, with utilization, depth, expected wait, who keeps vacuum back, and what to do.';
