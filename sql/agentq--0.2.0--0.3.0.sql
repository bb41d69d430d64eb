-- 0.3.0 brings the engine: background workers, chores, waiting claims, NOTIFY, schedules and SQL handlers.

ALTER TABLE agentq.queue ADD COLUMN keep_seconds bigint;
ALTER TABLE agentq.queue ADD CONSTRAINT queue_keep_check CHECK (keep_seconds >= 0);
COMMENT ON COLUMN agentq.queue.keep_seconds IS 'How long its finished jobs are kept; NULL: queue.retention.keep_seconds.';
CREATE OR REPLACE FUNCTION agentq.fn_queue_take() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE agentq.queue
    SET lease_seconds = NEW.lease_seconds, max_attempts = NEW.max_attempts, priority = NEW.priority,
        description = NEW.description, paused_at = NEW.paused_at, paused_reason = NEW.paused_reason,
        created_at = NEW.created_at, updated_at = NEW.updated_at, keep_seconds = NEW.keep_seconds
    WHERE queue_id = NEW.queue_id AND queue = NEW.queue;
    IF FOUND THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;

ALTER TABLE agentq.queue_heartbeat ADD COLUMN freshness text NOT NULL DEFAULT 'fresh';
ALTER TABLE agentq.queue_heartbeat
    ADD CONSTRAINT queue_heartbeat_freshness_check CHECK (freshness IN ('fresh', 'warning', 'stale'));
COMMENT ON COLUMN agentq.queue_heartbeat.freshness IS 'fresh, warning or stale, as the engine last found it.';
CREATE INDEX job_done_finished_idx ON agentq.job_done USING brin (finished_at) WITH (pages_per_range = 16, autosummarize = on);

CREATE FUNCTION agentq.fn_schedule_upcoming(
	"p_cron" TEXT,
	"p_timezone" TEXT DEFAULT 'UTC',
	"p_count" INT DEFAULT 5,
	"p_after" timestamp with time zone DEFAULT NULL
) RETURNS timestamp with time zone[]
STABLE PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_schedule_upcoming_wrapper';
CREATE FUNCTION agentq.fn_engine_chore_defaults() RETURNS TABLE (
	"chore" TEXT, 
	"every_seconds" double precision, 
	"about" TEXT 
)
IMMUTABLE STRICT PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_engine_chore_defaults_wrapper';
CREATE FUNCTION agentq.fn_engine_live() RETURNS TABLE (
	"chore" TEXT, 
	"last_run_at" timestamp with time zone, 
	"next_run_at" timestamp with time zone, 
	"last_seconds" double precision, 
	"last_rows" bigint, 
	"runs" bigint, 
	"failures" INT 
)
STRICT VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_engine_live_wrapper';
CREATE FUNCTION agentq.fn_engine_state() RETURNS TABLE (
	"mode" TEXT, 
	"launcher_pid" INT, 
	"worker_pid" INT, 
	"started_at" timestamp with time zone, 
	"restarts" INT, 
	"retry_at" timestamp with time zone, 
	"trouble" TEXT, 
	"waiting_claims" INT, 
	"sql_workers" INT, 
	"sql_workers_busy" INT 
)
STRICT VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_engine_state_wrapper';

-- The one log of what happened. Rows are added and, when they have expired, removed; never changed.
CREATE TABLE agentq.event (
    event_id   uuid NOT NULL,
    event_at   timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    purpose    text NOT NULL DEFAULT 'event',
    event_kind text NOT NULL,
    subject    text NOT NULL,
    payload    jsonb NOT NULL DEFAULT '{}',
    expires_at timestamptz,
    CONSTRAINT event_pkey PRIMARY KEY (event_id),
    CONSTRAINT event_purpose_check CHECK (purpose IN ('event', 'audit', 'agent_step')),
    CONSTRAINT event_kind_check CHECK (btrim(event_kind) <> '')
);
CREATE INDEX event_subject_idx ON agentq.event (subject, event_id);
CREATE INDEX event_expires_idx ON agentq.event (expires_at) WHERE expires_at IS NOT NULL;
COMMENT ON TABLE agentq.event IS 'What happened, in the order of event_id. Never changed; removed only when it has expired.';
COMMENT ON COLUMN agentq.event.event_id IS 'Time-ordered id.';
COMMENT ON COLUMN agentq.event.event_at IS 'When it happened.';
COMMENT ON COLUMN agentq.event.purpose IS 'event, audit or agent_step.';
COMMENT ON COLUMN agentq.event.event_kind IS 'What happened, such as executor.stale.';
COMMENT ON COLUMN agentq.event.subject IS 'What it happened to: the name of an executor, the id of a job.';
COMMENT ON COLUMN agentq.event.payload IS 'What else is to be known.';
COMMENT ON COLUMN agentq.event.expires_at IS 'When the engine may remove it; NULL: never.';

CREATE FUNCTION agentq.fn_event_keep() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.expires_at <= agentq.fn_clock_now() THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'events are never changed or removed before they expire'
        USING ERRCODE = 'restrict_violation', HINT = 'Write a new event that corrects the old one.';
END $$;
COMMENT ON FUNCTION agentq.fn_event_keep() IS 'Trigger: refuses to change an event, or to remove one that has not expired.';

CREATE TRIGGER event_keep BEFORE UPDATE OR DELETE ON agentq.event
    FOR EACH ROW EXECUTE FUNCTION agentq.fn_event_keep();
CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq.event
    FOR EACH STATEMENT EXECUTE FUNCTION agentq.fn_event_keep();
COMMENT ON TRIGGER event_keep ON agentq.event IS 'What happened stays as it was written.';
COMMENT ON TRIGGER event_keep_all ON agentq.event IS 'What happened stays as it was written.';

SELECT pg_catalog.pg_extension_config_dump('agentq.event', '');

-- Jobs that are enqueued again and again.
CREATE TABLE agentq.schedule (
    schedule     text NOT NULL,
    cron         text NOT NULL,
    timezone     text NOT NULL DEFAULT 'UTC',
    job          jsonb NOT NULL,
    missed       text NOT NULL DEFAULT 'once',
    overlap      boolean NOT NULL DEFAULT true,
    next_fire_at timestamptz,
    last_fire_at timestamptz,
    last_job_id  uuid,
    fired        bigint NOT NULL DEFAULT 0,
    skipped      bigint NOT NULL DEFAULT 0,
    paused_at    timestamptz,
    created_at   timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    updated_at   timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    CONSTRAINT schedule_pkey PRIMARY KEY (schedule),
    CONSTRAINT schedule_name_check CHECK (btrim(schedule) <> '' AND octet_length(schedule) <= 200),
    CONSTRAINT schedule_job_check CHECK (jsonb_typeof(job) = 'object' AND job ? 'job_kind'),
    CONSTRAINT schedule_missed_check CHECK (missed IN ('skip', 'once', 'backfill'))
) WITH (fillfactor = 70);
CREATE INDEX schedule_next_idx ON agentq.schedule (next_fire_at) WHERE paused_at IS NULL;
COMMENT ON TABLE agentq.schedule IS 'Schedules. Made and changed with fn_schedule_set, fn_schedule_pause, fn_schedule_resume and fn_schedule_remove; read v_schedule.';
COMMENT ON COLUMN agentq.schedule.schedule IS 'Name of the schedule.';
COMMENT ON COLUMN agentq.schedule.cron IS 'Five cron fields, a nickname such as @daily, or @every with a duration.';
COMMENT ON COLUMN agentq.schedule.timezone IS 'Time zone in which the cron fields are read.';
COMMENT ON COLUMN agentq.schedule.job IS 'The job to enqueue, as fn_job_enqueue_batch takes it.';
COMMENT ON COLUMN agentq.schedule.missed IS 'What becomes of slots that nobody could fire in time: skip, once or backfill.';
COMMENT ON COLUMN agentq.schedule.overlap IS 'Whether a job is enqueued while the last one has not finished.';
COMMENT ON COLUMN agentq.schedule.next_fire_at IS 'The next slot; NULL: there is none.';
COMMENT ON COLUMN agentq.schedule.last_fire_at IS 'The last slot that was fired or skipped.';
COMMENT ON COLUMN agentq.schedule.last_job_id IS 'The job of the last slot.';
COMMENT ON COLUMN agentq.schedule.fired IS 'Jobs enqueued so far.';
COMMENT ON COLUMN agentq.schedule.skipped IS 'Slots left out because the job before had not finished.';
COMMENT ON COLUMN agentq.schedule.paused_at IS 'Since when it does not fire; NULL: it does.';
COMMENT ON COLUMN agentq.schedule.created_at IS 'When it was made.';
COMMENT ON COLUMN agentq.schedule.updated_at IS 'When it was last set.';

CREATE VIEW agentq.v_schedule AS
SELECT schedule, cron, timezone, job->>'job_kind' AS job_kind, missed, overlap, paused_at IS NOT NULL AS paused,
       next_fire_at, agentq.fn_schedule_upcoming(cron, timezone, 5) AS next_five, last_fire_at, last_job_id, fired, skipped
FROM agentq.schedule;
COMMENT ON VIEW agentq.v_schedule IS 'The schedules, each with its next five fire times.';
COMMENT ON COLUMN agentq.v_schedule.schedule IS 'Name of the schedule.';
COMMENT ON COLUMN agentq.v_schedule.cron IS 'When it fires.';
COMMENT ON COLUMN agentq.v_schedule.timezone IS 'Time zone in which the cron fields are read.';
COMMENT ON COLUMN agentq.v_schedule.job_kind IS 'Kind of the job it enqueues.';
COMMENT ON COLUMN agentq.v_schedule.missed IS 'What becomes of missed slots.';
COMMENT ON COLUMN agentq.v_schedule.overlap IS 'Whether jobs may overlap.';
COMMENT ON COLUMN agentq.v_schedule.paused IS 'Whether it does not fire.';
COMMENT ON COLUMN agentq.v_schedule.next_fire_at IS 'The slot that is fired next.';
COMMENT ON COLUMN agentq.v_schedule.next_five IS 'The next five times after now.';
COMMENT ON COLUMN agentq.v_schedule.last_fire_at IS 'The last slot.';
COMMENT ON COLUMN agentq.v_schedule.last_job_id IS 'The job of the last slot.';
COMMENT ON COLUMN agentq.v_schedule.fired IS 'Jobs enqueued so far.';
COMMENT ON COLUMN agentq.v_schedule.skipped IS 'Slots left out because the job before had not finished.';

SELECT pg_catalog.pg_extension_config_dump('agentq.schedule', '');

-- Kinds of jobs that the server runs itself.
CREATE TABLE agentq.job_handler (
    job_kind        text COLLATE "C" NOT NULL,
    sql             text NOT NULL,
    role_name       name NOT NULL,
    queue           text NOT NULL,
    timeout_seconds integer NOT NULL,
    enabled         boolean NOT NULL DEFAULT true,
    registered_by   name NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    updated_at      timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    CONSTRAINT job_handler_pkey PRIMARY KEY (job_kind),
    CONSTRAINT job_handler_kind_check CHECK (btrim(job_kind) <> '' AND octet_length(job_kind) <= 200),
    CONSTRAINT job_handler_timeout_check CHECK (timeout_seconds BETWEEN 1 AND 3600)
);
COMMENT ON TABLE agentq.job_handler IS 'SQL that the engine''s SQL workers run for jobs of a kind. Made with fn_handler_register, removed with fn_handler_remove.';
COMMENT ON COLUMN agentq.job_handler.job_kind IS 'Kind of the jobs.';
COMMENT ON COLUMN agentq.job_handler.sql IS 'The statement; $1 is the job as jsonb. The first value of its first row is the result.';
COMMENT ON COLUMN agentq.job_handler.role_name IS 'The role with whose rights it runs.';
COMMENT ON COLUMN agentq.job_handler.queue IS 'The queue from which jobs are taken.';
COMMENT ON COLUMN agentq.job_handler.timeout_seconds IS 'How long it may run.';
COMMENT ON COLUMN agentq.job_handler.enabled IS 'Whether jobs are taken.';
COMMENT ON COLUMN agentq.job_handler.registered_by IS 'Who registered it.';
COMMENT ON COLUMN agentq.job_handler.created_at IS 'When it was registered.';
COMMENT ON COLUMN agentq.job_handler.updated_at IS 'When it was last changed.';

SELECT pg_catalog.pg_extension_config_dump('agentq.job_handler', '');

-- The engine's chores, their last runs, and the metrics history.
CREATE TABLE agentq.engine_chore (
    chore         text NOT NULL,
    every_seconds numeric(10, 3) NOT NULL,
    enabled       boolean NOT NULL DEFAULT true,
    about         text NOT NULL,
    CONSTRAINT engine_chore_pkey PRIMARY KEY (chore),
    CONSTRAINT engine_chore_every_check CHECK (every_seconds BETWEEN 0.1 AND 86400)
);
COMMENT ON TABLE agentq.engine_chore IS 'What the engine does again and again. An operator may change how often, or switch a chore off, with fn_engine_chore_set.';
COMMENT ON COLUMN agentq.engine_chore.chore IS 'Name of the chore.';
COMMENT ON COLUMN agentq.engine_chore.every_seconds IS 'Seconds from one run to the next.';
COMMENT ON COLUMN agentq.engine_chore.enabled IS 'Whether the engine runs it.';
COMMENT ON COLUMN agentq.engine_chore.about IS 'What it does.';

-- As with the settings: a restored dump must win over the rows that CREATE EXTENSION makes.
CREATE FUNCTION agentq.fn_engine_chore_take() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE agentq.engine_chore SET every_seconds = NEW.every_seconds, enabled = NEW.enabled WHERE chore = NEW.chore;
    IF FOUND THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION agentq.fn_engine_chore_take() IS 'Trigger: an inserted chore that is there already is set instead.';
CREATE TRIGGER engine_chore_take BEFORE INSERT ON agentq.engine_chore
    FOR EACH ROW EXECUTE FUNCTION agentq.fn_engine_chore_take();
COMMENT ON TRIGGER engine_chore_take ON agentq.engine_chore IS 'Lets a restored dump overwrite the defaults.';

INSERT INTO agentq.engine_chore (chore, every_seconds, about)
SELECT chore, every_seconds, about FROM agentq.fn_engine_chore_defaults();

CREATE TABLE agentq.engine_chore_run (
    chore         text NOT NULL,
    last_run_at   timestamptz NOT NULL,
    last_seconds  double precision NOT NULL,
    last_rows     bigint NOT NULL,
    runs          bigint NOT NULL,
    failures      integer NOT NULL,
    last_error    text,
    last_error_at timestamptz,
    next_run_at   timestamptz NOT NULL,
    CONSTRAINT engine_chore_run_pkey PRIMARY KEY (chore)
) WITH (fillfactor = 50);
COMMENT ON TABLE agentq.engine_chore_run IS 'The last run of each chore that did something, failed, or was a minute after the one before. Read v_engine_chore instead.';
COMMENT ON COLUMN agentq.engine_chore_run.chore IS 'Name of the chore.';
COMMENT ON COLUMN agentq.engine_chore_run.last_run_at IS 'When it last ran.';
COMMENT ON COLUMN agentq.engine_chore_run.last_seconds IS 'How long that took.';
COMMENT ON COLUMN agentq.engine_chore_run.last_rows IS 'How many rows it changed.';
COMMENT ON COLUMN agentq.engine_chore_run.runs IS 'Runs written down so far.';
COMMENT ON COLUMN agentq.engine_chore_run.failures IS 'How often it has failed since it last succeeded.';
COMMENT ON COLUMN agentq.engine_chore_run.last_error IS 'Its last error.';
COMMENT ON COLUMN agentq.engine_chore_run.last_error_at IS 'When that was.';
COMMENT ON COLUMN agentq.engine_chore_run.next_run_at IS 'When it was to run next.';

CREATE TABLE agentq.metric (
    taken_at       timestamptz NOT NULL,
    queue          text NOT NULL,
    job_kind       text NOT NULL,
    period_seconds double precision NOT NULL,
    ready          bigint NOT NULL,
    waiting        bigint NOT NULL,
    held           bigint NOT NULL,
    finished       bigint NOT NULL,
    succeeded      bigint NOT NULL,
    wait_p50       double precision,
    wait_p95       double precision,
    wait_p99       double precision,
    run_p50        double precision,
    run_p95        double precision,
    run_p99        double precision,
    expires_at     timestamptz NOT NULL,
    CONSTRAINT metric_pkey PRIMARY KEY (taken_at, queue, job_kind)
);
CREATE INDEX metric_expires_idx ON agentq.metric (expires_at);
COMMENT ON TABLE agentq.metric IS 'The queue''s history for charts: one row per minute, queue and kind that had jobs.';
COMMENT ON COLUMN agentq.metric.taken_at IS 'When the measure was taken.';
COMMENT ON COLUMN agentq.metric.queue IS 'The queue.';
COMMENT ON COLUMN agentq.metric.job_kind IS 'Kind of the jobs.';
COMMENT ON COLUMN agentq.metric.period_seconds IS 'Seconds since the measure before; the counts of finished jobs are of this time.';
COMMENT ON COLUMN agentq.metric.ready IS 'Jobs that may run now.';
COMMENT ON COLUMN agentq.metric.waiting IS 'Jobs that may run later.';
COMMENT ON COLUMN agentq.metric.held IS 'Jobs that a worker holds.';
COMMENT ON COLUMN agentq.metric.finished IS 'Jobs that have finished.';
COMMENT ON COLUMN agentq.metric.succeeded IS 'Those of them that have succeeded.';
COMMENT ON COLUMN agentq.metric.wait_p50 IS 'Seconds from when a finished job might have run to its last claim: half waited no longer.';
COMMENT ON COLUMN agentq.metric.wait_p95 IS '95 in 100 waited no longer.';
COMMENT ON COLUMN agentq.metric.wait_p99 IS '99 in 100 waited no longer.';
COMMENT ON COLUMN agentq.metric.run_p50 IS 'Seconds from the last claim of a finished job to its end: half took no longer.';
COMMENT ON COLUMN agentq.metric.run_p95 IS '95 in 100 took no longer.';
COMMENT ON COLUMN agentq.metric.run_p99 IS '99 in 100 took no longer.';
COMMENT ON COLUMN agentq.metric.expires_at IS 'When the engine removes it.';

CREATE VIEW agentq.v_engine_status AS
SELECT mode, launcher_pid, worker_pid, started_at, restarts, retry_at, trouble, waiting_claims, sql_workers, sql_workers_busy
FROM agentq.fn_engine_state();
COMMENT ON VIEW agentq.v_engine_status IS 'The engine of this database: which mode is in force, its processes, and what troubles it.';
COMMENT ON COLUMN agentq.v_engine_status.mode IS 'running; wanted, starting or waiting (see trouble); off (agentq.engine); standby; manual: not preloaded, call fn_engine_tick.';
COMMENT ON COLUMN agentq.v_engine_status.launcher_pid IS 'Process of the launcher.';
COMMENT ON COLUMN agentq.v_engine_status.worker_pid IS 'Process of this database''s worker.';
COMMENT ON COLUMN agentq.v_engine_status.started_at IS 'Since when the worker runs.';
COMMENT ON COLUMN agentq.v_engine_status.restarts IS 'How often the worker has died and been started again.';
COMMENT ON COLUMN agentq.v_engine_status.retry_at IS 'When it is tried again.';
COMMENT ON COLUMN agentq.v_engine_status.trouble IS 'Why it does not run, or runs no chores.';
COMMENT ON COLUMN agentq.v_engine_status.waiting_claims IS 'Claims that wait for a job.';
COMMENT ON COLUMN agentq.v_engine_status.sql_workers IS 'SQL workers that are there.';
COMMENT ON COLUMN agentq.v_engine_status.sql_workers_busy IS 'Those of them that run a job.';

CREATE VIEW agentq.v_engine_chore AS
SELECT c.chore, c.enabled, c.every_seconds,
       coalesce(l.last_run_at, r.last_run_at) AS last_run_at,
       coalesce(l.last_seconds, r.last_seconds) AS last_seconds,
       coalesce(l.last_rows, r.last_rows) AS last_rows,
       coalesce(l.runs, r.runs, 0) AS runs,
       coalesce(l.failures, r.failures, 0) AS failures,
       r.last_error, r.last_error_at,
       coalesce(l.next_run_at, r.next_run_at) AS next_run_at,
       c.about
FROM agentq.engine_chore c
LEFT JOIN agentq.engine_chore_run r USING (chore)
LEFT JOIN agentq.fn_engine_live() l USING (chore);
COMMENT ON VIEW agentq.v_engine_chore IS 'The engine''s chores: how often they run, how the last run went, and when the next one is due.';
COMMENT ON COLUMN agentq.v_engine_chore.chore IS 'Name of the chore.';
COMMENT ON COLUMN agentq.v_engine_chore.enabled IS 'Whether the engine runs it.';
COMMENT ON COLUMN agentq.v_engine_chore.every_seconds IS 'Seconds from one run to the next.';
COMMENT ON COLUMN agentq.v_engine_chore.last_run_at IS 'When it last ran.';
COMMENT ON COLUMN agentq.v_engine_chore.last_seconds IS 'How long that took.';
COMMENT ON COLUMN agentq.v_engine_chore.last_rows IS 'How many rows it changed.';
COMMENT ON COLUMN agentq.v_engine_chore.runs IS 'Runs since the engine started; without an engine, runs by hand.';
COMMENT ON COLUMN agentq.v_engine_chore.failures IS 'How often it has failed since it last succeeded.';
COMMENT ON COLUMN agentq.v_engine_chore.last_error IS 'Its last error.';
COMMENT ON COLUMN agentq.v_engine_chore.last_error_at IS 'When that was.';
COMMENT ON COLUMN agentq.v_engine_chore.next_run_at IS 'When it runs next.';
COMMENT ON COLUMN agentq.v_engine_chore.about IS 'What it does.';

CREATE FUNCTION agentq.fn_engine_chore_set(p_chore text, p_enabled boolean DEFAULT NULL, p_every_seconds numeric DEFAULT NULL)
RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_chore agentq.engine_chore;
BEGIN
    IF p_every_seconds NOT BETWEEN 0.1 AND 86400 THEN
        RAISE EXCEPTION 'p_every_seconds must be from 0.1 to 86400, but is %', p_every_seconds
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Switch a chore off with p_enabled => false.';
    END IF;
    UPDATE agentq.engine_chore
    SET enabled = coalesce(p_enabled, enabled), every_seconds = coalesce(p_every_seconds, every_seconds)
    WHERE chore = p_chore RETURNING * INTO v_chore;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no chore "%"', coalesce(p_chore, 'NULL')
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'The chores are: ' || (SELECT string_agg(chore, ', ' ORDER BY chore) FROM agentq.engine_chore) || '.';
    END IF;
    PERFORM agentq.fn_engine_announce();
    RETURN jsonb_build_object('ok', true, 'code', 'set', 'chore', v_chore.chore, 'enabled', v_chore.enabled,
        'every_seconds', v_chore.every_seconds);
END $$;
COMMENT ON FUNCTION agentq.fn_engine_chore_set(text, boolean, numeric) IS 'Switches a chore on or off, or changes how often it runs.';

SELECT pg_catalog.pg_extension_config_dump('agentq.engine_chore', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.metric', '');

DROP FUNCTION agentq.fn_job_claim(text, text, integer, jsonb);
DROP FUNCTION agentq.fn_job_claim_batch(text, integer, text, integer, jsonb);
CREATE FUNCTION agentq.fn_job_claim(
	"p_lease_owner" TEXT,
	"p_job_kind" TEXT DEFAULT NULL,
	"p_lease_seconds" INT DEFAULT NULL,
	"p_options" jsonb DEFAULT NULL,
	"p_wait" interval DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'claim_or_wait_wrapper';
CREATE FUNCTION agentq.fn_job_claim_batch(
	"p_lease_owner" TEXT,
	"p_limit" INT,
	"p_job_kind" TEXT DEFAULT NULL,
	"p_lease_seconds" INT DEFAULT NULL,
	"p_options" jsonb DEFAULT NULL,
	"p_wait" interval DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'claim_batch_or_wait_wrapper';
CREATE FUNCTION agentq.fn_schedule_set(
	"p_schedule" TEXT,
	"p_cron" TEXT,
	"p_job" jsonb,
	"p_timezone" TEXT DEFAULT 'UTC',
	"p_missed" TEXT DEFAULT 'once',
	"p_overlap" bool DEFAULT true
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_schedule_set_wrapper';
CREATE FUNCTION agentq.fn_schedule_pause(
	"p_schedule" TEXT
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_schedule_pause_wrapper';
CREATE FUNCTION agentq.fn_schedule_resume(
	"p_schedule" TEXT
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_schedule_resume_wrapper';
CREATE FUNCTION agentq.fn_schedule_remove(
	"p_schedule" TEXT
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_schedule_remove_wrapper';
CREATE FUNCTION agentq.fn_handler_register(
	"p_job_kind" TEXT,
	"p_sql" TEXT,
	"p_role" TEXT DEFAULT NULL,
	"p_options" jsonb DEFAULT NULL
) RETURNS jsonb
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_handler_register_wrapper';
CREATE FUNCTION agentq.fn_handler_remove(
	"p_job_kind" TEXT
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_handler_remove_wrapper';
CREATE FUNCTION agentq.fn_engine_tick(
	"p_chore" TEXT DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_engine_tick_wrapper';
CREATE FUNCTION agentq.fn_engine_announce() RETURNS void
STRICT
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_engine_announce_wrapper';

COMMENT ON FUNCTION agentq.fn_job_claim IS 'Leases the best ready job to an owner: priority, then schedule, then age. Answers with the job and its lease token, or with code empty; with p_wait it waits for one first.';
COMMENT ON FUNCTION agentq.fn_job_claim_batch IS 'Leases up to p_limit jobs in one call; with p_wait it waits until there is one.';
COMMENT ON FUNCTION agentq.fn_schedule_set IS 'Makes a schedule, or changes it: five cron fields, a nickname or @every, in a time zone. p_missed: skip, once or backfill.';
COMMENT ON FUNCTION agentq.fn_schedule_pause IS 'Stops a schedule.';
COMMENT ON FUNCTION agentq.fn_schedule_resume IS 'Lets a schedule go on with its next slot; those that passed meanwhile are left out.';
COMMENT ON FUNCTION agentq.fn_schedule_remove IS 'Removes a schedule. Jobs it has enqueued stay.';
COMMENT ON FUNCTION agentq.fn_handler_register IS 'Has the server run jobs of a kind itself: p_sql gets the job as $1 and runs with the rights of p_role.';
COMMENT ON FUNCTION agentq.fn_handler_remove IS 'Stops running jobs of a kind in the server.';
COMMENT ON FUNCTION agentq.fn_engine_tick IS 'Runs all chores, or one, once: for servers without the engine.';
COMMENT ON FUNCTION agentq.fn_engine_announce IS 'Tells the launcher that this database has the extension.';
COMMENT ON FUNCTION agentq.fn_schedule_upcoming IS 'The next times at which a cron rule fires.';
COMMENT ON FUNCTION agentq.fn_engine_chore_defaults IS 'The chores that the library knows.';
COMMENT ON FUNCTION agentq.fn_engine_live IS 'The last run of each chore, as the engine remembers it.';
COMMENT ON FUNCTION agentq.fn_engine_state IS 'How the engine of this database stands.';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA agentq FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA agentq FROM PUBLIC;

INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'EXECUTE', object
FROM (VALUES
    ('reader', ARRAY['fn_schedule_upcoming', 'fn_engine_live', 'fn_engine_state']),
    ('operator', ARRAY['fn_schedule_set', 'fn_schedule_pause', 'fn_schedule_resume', 'fn_schedule_remove',
        'fn_schedule_upcoming', 'fn_handler_register', 'fn_handler_remove', 'fn_engine_tick', 'fn_engine_chore_set',
        'fn_engine_live', 'fn_engine_state'])
) AS l(level, objects)
CROSS JOIN LATERAL unnest(l.objects) AS object;
INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'SELECT', object
FROM unnest(ARRAY['reader', 'operator']) AS level
CROSS JOIN unnest(ARRAY['event', 'metric', 'schedule', 'v_schedule', 'job_handler', 'engine_chore', 'v_engine_chore',
    'v_engine_status']) AS object;
-- Roles that have a level get what it has gained.
UPDATE agentq.access_grant SET granted_at = granted_at;

INSERT INTO agentq.config (key, value, description)
SELECT key, value, description FROM agentq.fn_config_defaults() d
WHERE NOT EXISTS (SELECT FROM agentq.config c WHERE c.key = d.key);
UPDATE agentq.config c SET description = d.description
FROM agentq.fn_config_defaults() d WHERE d.key = c.key AND d.description <> c.description;

SELECT agentq.fn_engine_announce();
