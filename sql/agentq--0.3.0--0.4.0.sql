-- 0.4.0: ack and claim in one call, and less to write in a job's life.

ALTER TABLE agentq.job ALTER COLUMN updated_at DROP NOT NULL;
ALTER TABLE agentq.job ALTER COLUMN resting_state DROP NOT NULL, ALTER COLUMN resting_state DROP DEFAULT;
COMMENT ON COLUMN agentq.job.updated_at IS 'When this row last changed; NULL: not since it was enqueued.';
COMMENT ON COLUMN agentq.job.resting_state IS 'queued or retry_waiting: its state while it is neither held nor finished; NULL: queued.';

-- Fewer columns make shorter rows, but only in a new table.
ALTER TABLE agentq.job_lease RENAME TO job_lease_0_3;
ALTER TABLE agentq.job_lease_0_3 RENAME CONSTRAINT job_lease_pkey TO job_lease_0_3_pkey;
CREATE TABLE agentq.job_lease (
    job_id        uuid NOT NULL,
    lease_token   uuid NOT NULL,
    lease_until   timestamptz NOT NULL,
    picked_at     timestamptz NOT NULL,
    started_at    timestamptz,
    keyed         boolean NOT NULL,
    lease_owner   agentq.job_name NOT NULL,
    cancel_reason text,
    CONSTRAINT job_lease_pkey PRIMARY KEY (job_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
-- No index on lease_until: with one, every claim would pay for what hardly any needs, and a
-- heartbeat could not change the row in place. Whoever looks for expired leases reads the table,
-- which holds no more than what is being worked on.
COMMENT ON TABLE agentq.job_lease IS 'Storage: jobs that a worker holds, until when, and with which token.';
COMMENT ON COLUMN agentq.job_lease.job_id IS 'The job.';
COMMENT ON COLUMN agentq.job_lease.lease_token IS 'New with every claim: whoever has another one has lost the lease.';
COMMENT ON COLUMN agentq.job_lease.lease_until IS 'After this the job may be given to another.';
COMMENT ON COLUMN agentq.job_lease.picked_at IS 'When it was claimed.';
COMMENT ON COLUMN agentq.job_lease.started_at IS 'When the holder said it had begun; NULL: leased, else in_progress.';
COMMENT ON COLUMN agentq.job_lease.lease_owner IS 'Who holds it.';
COMMENT ON COLUMN agentq.job_lease.cancel_reason IS 'Why it is to be cancelled, empty if nobody said; NULL: it is not.';
COMMENT ON COLUMN agentq.job_lease.keyed IS 'Whether an ack must free its idempotency key.';

INSERT INTO agentq.job_lease (job_id, lease_token, lease_until, picked_at, started_at, keyed, lease_owner, cancel_reason)
SELECT job_id, lease_token, lease_until, picked_at, started_at, keyed, lease_owner,
       CASE WHEN cancel_at IS NOT NULL THEN coalesce(cancel_reason, '') ELSE cancel_reason END
FROM agentq.job_lease_0_3;

ALTER TABLE agentq.job_done RENAME TO job_done_0_3;
ALTER TABLE agentq.job_done_0_3 RENAME CONSTRAINT job_done_pkey TO job_done_0_3_pkey;
ALTER INDEX agentq.job_done_finished_idx RENAME TO job_done_0_3_finished_idx;
CREATE TABLE agentq.job_done (
    job_id      uuid NOT NULL,
    lease_token uuid,
    finished_at timestamptz NOT NULL,
    picked_at   timestamptz,
    state       agentq.job_finished_state,
    lease_owner agentq.job_name,
    cancel_reason text,
    result      jsonb,
    CONSTRAINT job_done_pkey PRIMARY KEY (job_id)
);
-- Hardly any work for an ack; lets the engine find what has finished in the last minute.
CREATE INDEX job_done_finished_idx ON agentq.job_done USING brin (finished_at) WITH (pages_per_range = 16, autosummarize = on);
COMMENT ON TABLE agentq.job_done IS 'Storage: finished jobs. A success has its attempt here, any other end in job_attempt_log. Written once.';
COMMENT ON COLUMN agentq.job_done.job_id IS 'The job.';
COMMENT ON COLUMN agentq.job_done.lease_token IS 'Token of the attempt that succeeded.';
COMMENT ON COLUMN agentq.job_done.finished_at IS 'When it finished.';
COMMENT ON COLUMN agentq.job_done.picked_at IS 'When the last attempt began.';
COMMENT ON COLUMN agentq.job_done.state IS 'How the job ended; NULL: it succeeded.';
COMMENT ON COLUMN agentq.job_done.lease_owner IS 'Who made the attempt that succeeded.';
COMMENT ON COLUMN agentq.job_done.cancel_reason IS 'Why it was cancelled.';
COMMENT ON COLUMN agentq.job_done.result IS 'What the worker handed in.';

-- Instead of a CHECK, which the server would read anew for every ack, a twentieth of the time of a claim and an ack.
CREATE FUNCTION agentq.fn_job_done_keep() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'a finished job is written once: the row of job % in agentq.job_done cannot be changed', OLD.job_id
        USING ERRCODE = 'check_violation', HINT = 'Remove old ones with agentq.fn_job_purge, or enqueue the work anew.';
END $$;
COMMENT ON FUNCTION agentq.fn_job_done_keep() IS 'Trigger: refuses to change a finished job.';

CREATE TRIGGER tr_job_done_keep BEFORE UPDATE ON agentq.job_done
    FOR EACH ROW EXECUTE FUNCTION agentq.fn_job_done_keep();
COMMENT ON TRIGGER tr_job_done_keep ON agentq.job_done IS 'A finished job is written once.';

COMMENT ON TABLE agentq.job_attempt_log IS 'Storage: attempts that ended without success. Read job_attempt instead.';
INSERT INTO agentq.job_attempt_log (job_id, lease_token, began_at, ended_at, outcome, lease_owner, error_class, error)
SELECT job_id, lease_token, picked_at, finished_at, outcome, lease_owner, error_class, error
FROM agentq.job_done_0_3 WHERE state <> 'succeeded' AND outcome IS NOT NULL;
INSERT INTO agentq.job_done (job_id, lease_token, finished_at, picked_at, state, lease_owner, cancel_reason, result)
SELECT job_id, CASE WHEN state = 'succeeded' THEN lease_token END, finished_at, picked_at, nullif(state, 'succeeded'),
       CASE WHEN state = 'succeeded' THEN lease_owner END, cancel_reason, result
FROM agentq.job_done_0_3;
SELECT pg_catalog.pg_extension_config_dump('agentq.job_lease', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.job_done', '');

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
          FROM pg_class c WHERE c.relnamespace = 'agentq'::regnamespace AND c.relkind = 'r') d
    LEFT JOIN (SELECT * FROM holder ORDER BY age DESC, since LIMIT 1) h ON true
$$;
COMMENT ON FUNCTION agentq.fn_vacuum_state IS 'Dead rows in agentq''s tables, and the session, prepared transaction or replication slot with the oldest snapshot, which vacuum has to wait for.';

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
       greatest(j.created_at, j.updated_at, l.picked_at, l.started_at, d.finished_at) AS updated_at,
       q.queue
FROM agentq.job j
JOIN agentq.queue q ON q.queue_id = j.queue_id
LEFT JOIN agentq.job_lease l ON l.job_id = j.job_id
LEFT JOIN agentq.job_done d ON d.job_id = j.job_id;
CREATE OR REPLACE VIEW agentq.job_attempt AS
SELECT a.job_id,
       (row_number() OVER (PARTITION BY a.job_id ORDER BY a.began_at, a.lease_token))::integer AS attempt_no,
       a.lease_token, a.lease_owner::text AS lease_owner, a.began_at, a.ended_at, a.outcome::text AS outcome,
       a.error_class, a.error
FROM (
    SELECT job_id, lease_token, lease_owner, began_at, ended_at, outcome, error_class, error
    FROM agentq.job_attempt_log
    UNION ALL
    SELECT job_id, lease_token, lease_owner, picked_at, finished_at, 'succeeded', NULL, NULL
    FROM agentq.job_done WHERE lease_token IS NOT NULL
    UNION ALL
    SELECT job_id, lease_token, lease_owner, picked_at, NULL, NULL, NULL, NULL
    FROM agentq.job_lease
) a;
CREATE OR REPLACE VIEW agentq.v_queue_health AS
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
CREATE OR REPLACE VIEW agentq.v_queue_depth AS
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
COMMENT ON COLUMN agentq.v_queue_health.dead_rows IS 'Rows of agentq''s tables that vacuum has yet to remove.';
COMMENT ON COLUMN agentq.v_queue_health.vacuum_held_by IS 'When dead rows pile up: who has the oldest snapshot, so that vacuum cannot remove them.';
COMMENT ON COLUMN agentq.v_queue_health.vacuum_held_since IS 'Since when.';
-- Taken out first, because a dump would go on asking for a table that is only dropped.
ALTER EXTENSION agentq DROP TABLE agentq.job_lease_0_3;
ALTER EXTENSION agentq DROP TABLE agentq.job_done_0_3;
DROP TABLE agentq.job_lease_0_3;
DROP TABLE agentq.job_done_0_3;

CREATE FUNCTION agentq.fn_job_ack_and_claim(
	"p_job_id" uuid,
	"p_lease_owner" TEXT,
	"p_result" jsonb DEFAULT NULL,
	"p_lease_token" uuid DEFAULT NULL,
	"p_job_kind" TEXT DEFAULT NULL,
	"p_lease_seconds" INT DEFAULT NULL,
	"p_options" jsonb DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_job_ack_and_claim_wrapper';
CREATE FUNCTION agentq.fn_job_ack_and_claim_batch(
	"p_lease_owner" TEXT,
	"p_jobs" jsonb,
	"p_limit" INT,
	"p_job_kind" TEXT DEFAULT NULL,
	"p_lease_seconds" INT DEFAULT NULL,
	"p_options" jsonb DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_job_ack_and_claim_batch_wrapper';

-- They see to it themselves, at less cost.
ALTER FUNCTION agentq.fn_job_enqueue RESET search_path;
ALTER FUNCTION agentq.fn_job_enqueue_batch RESET search_path;
ALTER FUNCTION agentq.fn_job_claim RESET search_path;
ALTER FUNCTION agentq.fn_job_claim_batch RESET search_path;
ALTER FUNCTION agentq.fn_job_ack RESET search_path;
ALTER FUNCTION agentq.fn_job_ack_batch RESET search_path;

COMMENT ON FUNCTION agentq.fn_job_ack_and_claim IS 'Finishes a held job and claims the next, in one call and one commit. With no job id it only claims.';
COMMENT ON FUNCTION agentq.fn_job_ack_and_claim_batch IS 'Finishes many held jobs and claims the next ones, in one call and one commit. With no list it only claims.';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA agentq FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA agentq FROM PUBLIC;

INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'EXECUTE', object
FROM (VALUES
    ('worker', ARRAY['fn_job_ack_and_claim', 'fn_job_ack_and_claim_batch']),
    ('reader', ARRAY['fn_vacuum_state']),
    ('operator', ARRAY['fn_job_ack_and_claim', 'fn_job_ack_and_claim_batch', 'fn_vacuum_state'])
) AS l(level, objects)
CROSS JOIN LATERAL unnest(l.objects) AS object;
-- Roles that have a level get what it has gained.
UPDATE agentq.access_grant SET granted_at = granted_at;
