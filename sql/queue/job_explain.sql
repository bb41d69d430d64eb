-- Why a job does not run. The version before has this function, too, so that it is replaced where it is there.
CREATE OR REPLACE FUNCTION agentq.fn_job_explain(p_job_id uuid) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_now   timestamptz := agentq.fn_clock_now();
    v_job   record;
    v_lease agentq_internal.job_lease;
    v_gates jsonb := '[]';
    v_at    timestamptz;
    v_ahead bigint;
    v_key   record;
BEGIN
    SELECT j.*, q.queue, q.paused_at, q.paused_reason, v.state, v.finished_at, b.line
    INTO v_job
    FROM agentq_internal.job j
    JOIN agentq.queue q ON q.queue_id = j.queue_id
    JOIN agentq.job_queue v ON v.job_id = j.job_id
    LEFT JOIN agentq_internal.job_line b ON b.job_id = j.job_id
    WHERE j.job_id = p_job_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no job %', coalesce(p_job_id::text, 'NULL')
            USING ERRCODE = 'no_data_found', HINT = 'It may have been purged; its dead letter, if any, is in agentq.job_dead_letter.';
    END IF;
    IF NOT agentq_internal.fn_sees_job(p_job_id) THEN
        RETURN jsonb_build_object('ok', true, 'code', 'not_yours', 'job_id', p_job_id, 'state', v_job.state, 'gates', '[]'::jsonb,
            'hint', 'Of a job that somebody else has enqueued a producer sees the state.');
    END IF;
    IF v_job.finished_at IS NOT NULL THEN
        RETURN jsonb_build_object('ok', true, 'code', 'finished', 'job_id', p_job_id, 'state', v_job.state,
            'finished_at', v_job.finished_at, 'gates', '[]'::jsonb);
    END IF;
    SELECT * INTO v_lease FROM agentq_internal.job_lease WHERE job_id = p_job_id;
    IF FOUND THEN
        RETURN jsonb_build_object('ok', true, 'code', 'held', 'job_id', p_job_id, 'state', v_job.state,
            'lease_owner', v_lease.lease_owner, 'lease_until', v_lease.lease_until, 'held_since', v_lease.picked_at,
            'cancel_requested', v_lease.cancel_reason IS NOT NULL, 'gates', '[]'::jsonb);
    END IF;

    -- From the widest gate to the narrowest; each says what would open it.
    IF NOT agentq.fn_config_get('queue.job_substrate.enabled')::boolean THEN
        v_gates := v_gates || jsonb_build_object('gate', 'gate_closed', 'message', 'queue.job_substrate.enabled is false',
            'hint', 'Open it with fn_config_set.');
    END IF;
    IF v_job.paused_at IS NOT NULL THEN
        v_gates := v_gates || jsonb_build_object('gate', 'paused', 'message', format('the queue %s is paused', v_job.queue),
            'since', v_job.paused_at, 'reason', v_job.paused_reason, 'hint', 'Resume it with fn_queue_resume.');
    END IF;
    IF v_job.parked IS NOT NULL THEN
        v_gates := v_gates || jsonb_build_object('gate', 'parked', 'message', 'nobody knows what became of its last attempt',
            'hint', 'Find out, and say so with fn_job_reconcile.');
    ELSIF v_job.scheduled_at > v_now AND (v_job.waits_for->>'at')::timestamptz = v_job.scheduled_at THEN
        v_at := nullif(v_job.scheduled_at, 'infinity');
        v_gates := v_gates || jsonb_build_array(v_job.waits_for - 'at' - 'was' || jsonb_build_object('until', v_at));
    ELSIF v_job.scheduled_at > v_now AND v_job.state = 'retry_waiting' THEN
        v_at := v_job.scheduled_at;
        v_gates := v_gates || jsonb_build_object('gate', 'retry', 'message',
            format('attempt %s failed, and the next waits', v_job.attempts), 'until', v_at, 'error', left(v_job.last_error, 500));
    ELSIF v_job.scheduled_at > v_now THEN
        v_at := v_job.scheduled_at;
        v_gates := v_gates || jsonb_build_object('gate', 'schedule', 'message', 'its time has not come', 'until', v_at);
    END IF;
    IF v_job.line LIKE 'order:%' THEN
        v_gates := v_gates || coalesce((
            SELECT jsonb_build_object('gate', 'ordering_key', 'message',
                format('another job with the ordering key %s comes first', v_job.ordering_key),
                'ordering_key', v_job.ordering_key, 'ahead', o.job_id, 'ahead_state', h.state, 'ahead_until', h.lease_until,
                'hint', CASE WHEN u.job_id IS NULL THEN 'It runs when that job has finished.'
                    ELSE 'That job has finished. The next one comes when the transaction has ended that is enqueueing, changing or cancelling a job with this key.' END)
            FROM agentq_internal.job_order o LEFT JOIN agentq.job_queue h ON h.job_id = o.job_id
            LEFT JOIN agentq_internal.job_order_due u ON u.job_id = o.job_id
            WHERE o.queue_id = v_job.queue_id AND o.ordering_key = v_job.ordering_key), '[]');
    END IF;
    v_gates := v_gates || coalesce((
        SELECT jsonb_agg(jsonb_build_object('gate', 'limit', 'message',
                format('all %s slots of %s are taken', greatest(r.max_concurrent - r.taken_by_hand, 0), k.key),
                'limit_key', k.key, 'max_concurrent', r.max_concurrent, 'taken_by_hand', r.taken_by_hand, 'active', h.active,
                'held_by', h.held_by, 'until', h.until, 'hint', 'It runs when one of them ends, or when fn_limit_set raises the limit.')
            ORDER BY k.key)
        FROM (SELECT 'global' AS key UNION ALL SELECT 'queue:' || v_job.queue UNION ALL SELECT 'kind:' || v_job.job_kind
              UNION ALL SELECT unnest(v_job.limit_keys)) k
        JOIN agentq.limit_rule r ON r.limit_key = agentq_internal.fn_limit_rule_of(k.key) AND r.max_concurrent IS NOT NULL
        CROSS JOIN LATERAL (
            SELECT count(*) AS active, min(l.lease_until) AS until,
                   (SELECT jsonb_agg(jsonb_build_object('job_id', t.job_id, 'lease_owner', t.lease_owner, 'lease_until', t.lease_until))
                    FROM (SELECT * FROM agentq_internal.job_lease t WHERE k.key = ANY (t.limits) ORDER BY t.lease_until LIMIT 10) t) AS held_by
            FROM agentq_internal.job_lease l WHERE k.key = ANY (l.limits)) h
        WHERE h.active >= greatest(r.max_concurrent - r.taken_by_hand, 0)), '[]');
    -- A rate, or what the other side said; and budgets.
    FOR v_key IN
        SELECT k.key, k.weight, g.gauge
        FROM (SELECT 'global' AS key, 1 AS weight UNION ALL SELECT 'queue:' || v_job.queue, 1 UNION ALL SELECT 'kind:' || v_job.job_kind, 1
              UNION ALL SELECT u.key, coalesce(u.weight, 1) FROM unnest(v_job.limit_keys, v_job.limit_weights) AS u (key, weight)) k
        CROSS JOIN LATERAL (SELECT agentq.fn_limit_gauge(k.key, k.weight) AS gauge) g
        WHERE NOT (g.gauge->>'open')::boolean
        ORDER BY k.key
    LOOP
        v_at := greatest(v_at, (v_key.gauge->>'opens_at')::timestamptz);
        v_gates := v_gates || jsonb_build_object('gate', 'rate', 'message', format('the rate of %s is used up, or its other side has closed', v_key.key),
            'limit_key', v_key.key, 'weight', v_key.weight, 'left', v_key.gauge->'left', 'until', v_key.gauge->'opens_at',
            'hint', 'It opens by itself; fn_limit_set changes the rate, fn_limit_report what the other side said.');
    END LOOP;
    FOR v_key IN
        SELECT b.*, coalesce((v_job.cost->>b.unit)::numeric, 0) AS cost FROM agentq.v_budget b
        WHERE b.is_current AND b.rule IS NOT NULL
          AND b.limit_key = ANY (ARRAY['global', 'queue:' || v_job.queue, 'kind:' || v_job.job_kind] || v_job.limit_keys)
          AND b.remaining < greatest(coalesce((v_job.cost->>b.unit)::numeric, 0), 0.000001)
        ORDER BY b.limit_key, b.unit
    LOOP
        v_at := greatest(v_at, v_key.ends_at);
        v_gates := v_gates || jsonb_build_object('gate', 'budget', 'message', format('the budget of %s %s has %s %s left, and the job costs %s',
                v_key.limit_key, CASE WHEN v_key.period = 'total' THEN 'in all' ELSE 'for each ' || v_key.period END, v_key.remaining, v_key.unit, v_key.cost),
            'limit_key', v_key.limit_key, 'unit', v_key.unit, 'period', v_key.period, 'amount', v_key.amount, 'used', v_key.used,
            'reserved', v_key.reserved, 'cost', v_key.cost, 'until', v_key.ends_at,
            'hint', 'It runs in the next period, when a job gives back what it had reserved, or when fn_budget_set raises the budget.');
    END LOOP;
    IF v_job.requires IS NOT NULL AND NOT EXISTS (SELECT FROM agentq.fn_capable_workers(v_job.requires)) THEN
        v_gates := v_gates || jsonb_build_object('gate', 'capability', 'message',
            format('no worker that is alive has announced all of %s', array_to_string(v_job.requires, ', ')),
            'requires', to_jsonb(v_job.requires),
            'hint', 'Start one, and let its heartbeat announce them in the metadata: {"capabilities": [...]}.');
    END IF;
    IF least(v_job.finish_by, CASE WHEN v_job.picked_at IS NULL THEN v_job.start_by END) <= v_now THEN
        v_gates := v_gates || jsonb_build_object('gate', 'deadline', 'message', 'it has missed its deadline and will be given up',
            'start_by', v_job.start_by, 'finish_by', v_job.finish_by);
    END IF;
    -- Nothing but other jobs. Counted up to a bound, so that a long queue does not make this slow.
    IF v_gates = '[]' THEN
        SELECT count(*) INTO v_ahead FROM (
            SELECT FROM agentq_internal.job_ready r
            WHERE v_job.line IS NULL AND r.any_queue_id = v_job.queue_id
              AND (r.priority, r.scheduled_at, r.job_id) < (v_job.priority, v_job.scheduled_at, p_job_id)
            UNION ALL
            SELECT FROM agentq_internal.job_line r
            WHERE r.line = v_job.line AND r.any_queue_id = v_job.queue_id
              AND (r.priority, r.scheduled_at, r.job_id) < (v_job.priority, v_job.scheduled_at, p_job_id)
            LIMIT 1000) a;
        IF NOT EXISTS (SELECT FROM agentq_internal.job_lease) AND NOT EXISTS (
            SELECT FROM agentq.queue_heartbeat h WHERE v_now - h.last_tick_at
                <= make_interval(secs => agentq.fn_config_get('queue.heartbeat.stale_threshold_seconds')::integer)) THEN
            v_gates := v_gates || jsonb_build_object('gate', 'no_worker', 'message', 'no job is held and no executor has given a sign of life',
                'hint', 'Start a worker that claims from this queue.');
        END IF;
    END IF;
    -- Whose jobs are in the way is not for producers.
    IF NOT agentq_internal.fn_sees_all_jobs() THEN
        SELECT coalesce(jsonb_agg(g - '{held_by,ahead,ahead_state,ahead_until}'::text[] ORDER BY n), '[]') INTO v_gates
        FROM jsonb_array_elements(v_gates) WITH ORDINALITY AS e(g, n);
    END IF;
    RETURN jsonb_build_object('ok', true, 'code', CASE WHEN v_gates = '[]' THEN 'ready' ELSE 'waiting' END,
        'job_id', p_job_id, 'state', v_job.state, 'queue', v_job.queue, 'gates', v_gates,
        'may_run_at', CASE WHEN v_gates = '[]' THEN v_now ELSE v_at END, 'ahead', v_ahead);
END $$;
COMMENT ON FUNCTION agentq.fn_job_explain(uuid) IS 'Why a job does not run: every gate that holds it, who holds its slots, which job is ahead, and when it may run.';
