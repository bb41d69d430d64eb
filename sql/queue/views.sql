-- What an operator looks at.

-- With the rights of its owner, because what other sessions do is hidden from most roles. It tells
-- who they are and since when, never what they run.
CREATE FUNCTION agentq.fn_vacuum_state(OUT dead_rows bigint, OUT held_by text, OUT held_pid integer, OUT held_since timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH holder AS (
        SELECT age(a.backend_xmin) AS age, a.pid, coalesce(a.xact_start, a.query_start, a.backend_start) AS since,
               format('session %s of %s (%s, %s)', a.pid, a.usename, coalesce(nullif(a.application_name, ''), a.backend_type),
                   coalesce(a.state, 'running')) AS name
        FROM pg_stat_activity a
        WHERE a.backend_xmin IS NOT NULL AND a.pid <> pg_backend_pid()
          AND (a.datid = (SELECT oid FROM pg_database WHERE datname = current_database()) OR a.backend_type = 'walsender')
        UNION ALL
        SELECT age(p.transaction), NULL, p.prepared, format('prepared transaction %L of %s', p.gid, p.owner)
        FROM pg_prepared_xacts p WHERE p.database = current_database()
        UNION ALL
        SELECT greatest(age(s.xmin), age(s.catalog_xmin)), s.active_pid, NULL, format('replication slot %I', s.slot_name)
        FROM pg_replication_slots s WHERE s.xmin IS NOT NULL
    )
    SELECT d.rows, h.name, h.pid, h.since
    FROM (SELECT sum(pg_stat_get_dead_tuples(c.oid))::bigint AS rows
          FROM pg_class c
          WHERE c.relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND c.relkind = 'r') d
    LEFT JOIN (SELECT * FROM holder ORDER BY age DESC, since LIMIT 1) h ON true
$$;
COMMENT ON FUNCTION agentq.fn_vacuum_state IS 'Dead rows in agentq''s tables, and the session, prepared transaction or replication slot with the oldest snapshot, which vacuum has to wait for.';

CREATE VIEW agentq.v_queue_health AS
SELECT h.executor_name,
       h.executor_kind,
       h.last_tick_at,
       h.last_tick_status,
       h.ticks_total,
       h.current_job_id,
       h.lease_owner,
       extract(epoch FROM (now_.at - h.last_tick_at))::numeric(20, 3) AS seconds_since_tick,
       CASE WHEN h.executor_name IS NULL THEN NULL
            WHEN now_.at - h.last_tick_at <= limit_.span THEN 'fresh'
            WHEN now_.at - h.last_tick_at <= 2 * limit_.span THEN 'warning'
            ELSE 'stale' END AS freshness,
       jobs.queued AS jobs_queued,
       jobs.leased AS jobs_leased,
       jobs.in_progress AS jobs_in_progress,
       jobs.succeeded AS jobs_succeeded,
       jobs.failed AS jobs_failed,
       jobs.retry_waiting AS jobs_retry_waiting,
       jobs.dead_letter AS jobs_dead_letter,
       jobs.cancelled AS jobs_cancelled,
       jobs.cleaned AS jobs_cleaned,
       letters.pending AS dead_letters_pending,
       letters.open AS dead_letters_open,
       extract(epoch FROM limit_.span)::integer AS stale_threshold_seconds,
       agentq.fn_config_get('queue.job_substrate.enabled')::boolean AS gate_job_substrate,
       agentq.fn_config_get('queue.worker.enabled')::boolean AS gate_worker,
       agentq.fn_config_get('queue.notify.enabled')::boolean AS gate_notify,
       agentq.fn_config_get('queue.heartbeat.enabled')::boolean AS gate_heartbeat,
       vacuum_.dead_rows,
       CASE WHEN vacuum_.dead_rows > 10000 THEN vacuum_.held_by END AS vacuum_held_by,
       CASE WHEN vacuum_.dead_rows > 10000 THEN vacuum_.held_since END AS vacuum_held_since
FROM (SELECT agentq.fn_clock_now() AS at) now_
CROSS JOIN (SELECT make_interval(secs => agentq.fn_config_get('queue.heartbeat.stale_threshold_seconds')::integer) AS span) limit_
CROSS JOIN (
    SELECT count(*) FILTER (WHERE state = 'queued') AS queued,
           count(*) FILTER (WHERE state = 'leased') AS leased,
           count(*) FILTER (WHERE state = 'in_progress') AS in_progress,
           count(*) FILTER (WHERE state = 'succeeded') AS succeeded,
           count(*) FILTER (WHERE state = 'failed') AS failed,
           count(*) FILTER (WHERE state = 'retry_waiting') AS retry_waiting,
           count(*) FILTER (WHERE state = 'dead_letter') AS dead_letter,
           count(*) FILTER (WHERE state = 'cancelled') AS cancelled,
           count(*) FILTER (WHERE state = 'cleaned') AS cleaned
    FROM agentq.job_queue) jobs
CROSS JOIN (
    SELECT count(*) FILTER (WHERE triage_status = 'pending') AS pending,
           count(*) FILTER (WHERE triage_status <> 'closed') AS open
    FROM agentq.job_dead_letter) letters
CROSS JOIN agentq.fn_vacuum_state() vacuum_
LEFT JOIN agentq.queue_heartbeat h ON true;
COMMENT ON VIEW agentq.v_queue_health IS 'One row per executor, fresh, warning or stale, beside the number of jobs in each state, the dead letters that wait, and the four switches. With no executor there is one row without a name.';
COMMENT ON COLUMN agentq.v_queue_health.executor_name IS 'Name of the executor.';
COMMENT ON COLUMN agentq.v_queue_health.executor_kind IS 'What it is.';
COMMENT ON COLUMN agentq.v_queue_health.last_tick_at IS 'Its last sign of life.';
COMMENT ON COLUMN agentq.v_queue_health.last_tick_status IS 'How it said it was.';
COMMENT ON COLUMN agentq.v_queue_health.ticks_total IS 'Signs of life so far.';
COMMENT ON COLUMN agentq.v_queue_health.current_job_id IS 'The job it was at.';
COMMENT ON COLUMN agentq.v_queue_health.lease_owner IS 'The name under which it claims.';
COMMENT ON COLUMN agentq.v_queue_health.seconds_since_tick IS 'Seconds since its last sign of life.';
COMMENT ON COLUMN agentq.v_queue_health.freshness IS 'fresh up to the threshold, warning up to twice that, then stale.';
COMMENT ON COLUMN agentq.v_queue_health.jobs_queued IS 'Jobs in state queued.';
COMMENT ON COLUMN agentq.v_queue_health.jobs_leased IS 'Jobs in state leased.';
COMMENT ON COLUMN agentq.v_queue_health.jobs_in_progress IS 'Jobs in state in_progress.';
COMMENT ON COLUMN agentq.v_queue_health.jobs_succeeded IS 'Jobs in state succeeded.';
COMMENT ON COLUMN agentq.v_queue_health.jobs_failed IS 'Jobs in state failed.';
COMMENT ON COLUMN agentq.v_queue_health.jobs_retry_waiting IS 'Jobs in state retry_waiting.';
COMMENT ON COLUMN agentq.v_queue_health.jobs_dead_letter IS 'Jobs in state dead_letter.';
COMMENT ON COLUMN agentq.v_queue_health.jobs_cancelled IS 'Jobs in state cancelled.';
COMMENT ON COLUMN agentq.v_queue_health.jobs_cleaned IS 'Jobs in state cleaned.';
COMMENT ON COLUMN agentq.v_queue_health.dead_letters_pending IS 'Dead letters nobody has looked at.';
COMMENT ON COLUMN agentq.v_queue_health.dead_letters_open IS 'Dead letters that are not closed.';
COMMENT ON COLUMN agentq.v_queue_health.stale_threshold_seconds IS 'The threshold in force.';
COMMENT ON COLUMN agentq.v_queue_health.gate_job_substrate IS 'queue.job_substrate.enabled.';
COMMENT ON COLUMN agentq.v_queue_health.gate_worker IS 'queue.worker.enabled.';
COMMENT ON COLUMN agentq.v_queue_health.gate_notify IS 'queue.notify.enabled.';
COMMENT ON COLUMN agentq.v_queue_health.gate_heartbeat IS 'queue.heartbeat.enabled.';
COMMENT ON COLUMN agentq.v_queue_health.dead_rows IS 'Rows of agentq''s tables that vacuum has yet to remove.';
COMMENT ON COLUMN agentq.v_queue_health.vacuum_held_by IS 'When dead rows pile up: who has the oldest snapshot, so that vacuum cannot remove them.';
COMMENT ON COLUMN agentq.v_queue_health.vacuum_held_since IS 'Since when.';

CREATE VIEW agentq.v_job_queue_backlog AS
SELECT job_kind, state,
       count(*) AS row_count,
       min(created_at) AS oldest_created_at,
       max(created_at) AS newest_created_at,
       min(scheduled_at) FILTER (WHERE state IN ('queued', 'retry_waiting') AND isfinite(scheduled_at)) AS next_scheduled_at,
       avg(attempts)::numeric(10, 2) AS avg_attempts,
       max(attempts) AS most_attempts
FROM agentq.job_queue
GROUP BY job_kind, state;
COMMENT ON VIEW agentq.v_job_queue_backlog IS 'Jobs by kind and state.';
COMMENT ON COLUMN agentq.v_job_queue_backlog.job_kind IS 'The kind.';
COMMENT ON COLUMN agentq.v_job_queue_backlog.state IS 'The state.';
COMMENT ON COLUMN agentq.v_job_queue_backlog.row_count IS 'Jobs of that kind in that state.';
COMMENT ON COLUMN agentq.v_job_queue_backlog.oldest_created_at IS 'When the oldest was enqueued.';
COMMENT ON COLUMN agentq.v_job_queue_backlog.newest_created_at IS 'When the newest was enqueued.';
COMMENT ON COLUMN agentq.v_job_queue_backlog.next_scheduled_at IS 'When the next may run.';
COMMENT ON COLUMN agentq.v_job_queue_backlog.avg_attempts IS 'Failed attempts on average.';
COMMENT ON COLUMN agentq.v_job_queue_backlog.most_attempts IS 'Failed attempts of the worst.';

CREATE VIEW agentq.v_queue_depth AS
SELECT q.queue,
       q.paused_at IS NOT NULL AS paused,
       r.jobs + b.own AS ready,
       w.jobs AS waiting,
       l.jobs AS held,
       least(r.oldest, b.oldest) AS oldest_ready_at,
       extract(epoch FROM (agentq.fn_clock_now() - least(r.oldest, b.oldest)))::numeric(20, 3) AS oldest_ready_seconds,
       w.next AS next_due_at,
       b.jobs - b.own AS blocked
FROM agentq.queue q
CROSS JOIN LATERAL (SELECT count(*) AS jobs, min(scheduled_at) AS oldest FROM agentq_internal.job_ready
                    WHERE any_queue_id = q.queue_id) r
CROSS JOIN LATERAL (SELECT count(*) AS jobs, count(*) FILTER (WHERE line LIKE 'fair:%') AS own,
                           min(scheduled_at) FILTER (WHERE line LIKE 'fair:%') AS oldest
                    FROM agentq_internal.job_line WHERE any_queue_id = q.queue_id) b
CROSS JOIN LATERAL (SELECT count(*) AS jobs, min(w.scheduled_at) FILTER (WHERE isfinite(w.scheduled_at)) AS next
                    FROM agentq_internal.job_waiting w JOIN agentq_internal.job j ON j.job_id = w.job_id WHERE j.queue_id = q.queue_id) w
CROSS JOIN LATERAL (SELECT count(*) AS jobs
                    FROM agentq_internal.job_lease l JOIN agentq_internal.job j ON j.job_id = l.job_id WHERE j.queue_id = q.queue_id) l;
COMMENT ON VIEW agentq.v_queue_depth IS 'Each queue with its jobs that may run now, later, or are held, and how long the oldest has waited.';
COMMENT ON COLUMN agentq.v_queue_depth.queue IS 'The queue.';
COMMENT ON COLUMN agentq.v_queue_depth.paused IS 'Whether it gives out no jobs.';
COMMENT ON COLUMN agentq.v_queue_depth.ready IS 'Jobs that may run now.';
COMMENT ON COLUMN agentq.v_queue_depth.waiting IS 'Jobs whose time has not come, or has come since the last claim.';
COMMENT ON COLUMN agentq.v_queue_depth.held IS 'Jobs that a worker holds.';
COMMENT ON COLUMN agentq.v_queue_depth.oldest_ready_at IS 'Since when the oldest ready job may run.';
COMMENT ON COLUMN agentq.v_queue_depth.oldest_ready_seconds IS 'How long that is.';
COMMENT ON COLUMN agentq.v_queue_depth.next_due_at IS 'When the next waiting job may run.';
COMMENT ON COLUMN agentq.v_queue_depth.blocked IS 'Jobs that wait for a limit or a budget, or for another job with their ordering key.';

CREATE VIEW agentq.v_job_dead_letter_summary AS
SELECT job_kind, triage_status,
       count(*) AS row_count,
       min(moved_at) AS oldest_moved_at,
       max(moved_at) AS newest_moved_at,
       avg(attempts)::numeric(10, 2) AS avg_attempts,
       max(attempts) AS most_attempts
FROM agentq.job_dead_letter
GROUP BY job_kind, triage_status;
COMMENT ON VIEW agentq.v_job_dead_letter_summary IS 'Dead letters by kind and triage status.';
COMMENT ON COLUMN agentq.v_job_dead_letter_summary.job_kind IS 'The kind.';
COMMENT ON COLUMN agentq.v_job_dead_letter_summary.triage_status IS 'The triage status.';
COMMENT ON COLUMN agentq.v_job_dead_letter_summary.row_count IS 'Dead letters of that kind in that status.';
COMMENT ON COLUMN agentq.v_job_dead_letter_summary.oldest_moved_at IS 'When the oldest was given up.';
COMMENT ON COLUMN agentq.v_job_dead_letter_summary.newest_moved_at IS 'When the newest was given up.';
COMMENT ON COLUMN agentq.v_job_dead_letter_summary.avg_attempts IS 'Failed attempts on average.';
COMMENT ON COLUMN agentq.v_job_dead_letter_summary.most_attempts IS 'Failed attempts of the worst.';
