-- The engine's chores and their last runs.
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
CREATE FUNCTION agentq_internal.fn_engine_chore_take() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE agentq.engine_chore SET every_seconds = NEW.every_seconds, enabled = NEW.enabled WHERE chore = NEW.chore;
    IF FOUND THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION agentq_internal.fn_engine_chore_take() IS 'Trigger: an inserted chore that is there already is set instead.';
CREATE TRIGGER engine_chore_take BEFORE INSERT ON agentq.engine_chore
    FOR EACH ROW EXECUTE FUNCTION agentq_internal.fn_engine_chore_take();
COMMENT ON TRIGGER engine_chore_take ON agentq.engine_chore IS 'Lets a restored dump overwrite the defaults.';

INSERT INTO agentq.engine_chore (chore, every_seconds, about)
SELECT chore, every_seconds, about FROM agentq_internal.fn_engine_chore_defaults();

CREATE TABLE agentq_internal.engine_chore_run (
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
COMMENT ON TABLE agentq_internal.engine_chore_run IS 'The last run of each chore that did something, failed, or was a minute after the one before. Read v_engine_chore instead.';
COMMENT ON COLUMN agentq_internal.engine_chore_run.chore IS 'Name of the chore.';
COMMENT ON COLUMN agentq_internal.engine_chore_run.last_run_at IS 'When it last ran.';
COMMENT ON COLUMN agentq_internal.engine_chore_run.last_seconds IS 'How long that took.';
COMMENT ON COLUMN agentq_internal.engine_chore_run.last_rows IS 'How many rows it changed.';
COMMENT ON COLUMN agentq_internal.engine_chore_run.runs IS 'Runs written down so far.';
COMMENT ON COLUMN agentq_internal.engine_chore_run.failures IS 'How often it has failed since it last succeeded.';
COMMENT ON COLUMN agentq_internal.engine_chore_run.last_error IS 'Its last error.';
COMMENT ON COLUMN agentq_internal.engine_chore_run.last_error_at IS 'When that was.';
COMMENT ON COLUMN agentq_internal.engine_chore_run.next_run_at IS 'When it was to run next.';

CREATE VIEW agentq.v_engine_status AS
SELECT mode, launcher_pid, worker_pid, started_at, restarts, retry_at, trouble, waiting_claims, sql_workers, sql_workers_busy
FROM agentq_internal.fn_engine_state();
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
LEFT JOIN agentq_internal.engine_chore_run r USING (chore)
LEFT JOIN agentq_internal.fn_engine_live() l USING (chore);
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

SELECT pg_catalog.pg_extension_config_dump('agentq.engine_chore', '');
