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
