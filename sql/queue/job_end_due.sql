-- The end of a job waits for nobody who is in the way of its hook. What the hook could not be told at once stands here.
CREATE TABLE agentq_internal.job_end_due (
    end_id  uuid NOT NULL,
    hook    text NOT NULL,
    about   text NOT NULL,
    job_id  uuid NOT NULL,
    state   text NOT NULL,
    result  jsonb,
    error   text,
    context jsonb,
    CONSTRAINT job_end_due_pkey PRIMARY KEY (end_id)
);
COMMENT ON TABLE agentq_internal.job_end_due IS 'Storage: jobs that have ended while somebody was in the way of their hook, which the engine has yet to tell.';
COMMENT ON COLUMN agentq_internal.job_end_due.end_id IS 'The end, in the order of their time.';
COMMENT ON COLUMN agentq_internal.job_end_due.hook IS 'Name of the hook that is to be told.';
COMMENT ON COLUMN agentq_internal.job_end_due.about IS 'What it is to be told of: what stands behind the colon in on_end.';
COMMENT ON COLUMN agentq_internal.job_end_due.job_id IS 'The job.';
COMMENT ON COLUMN agentq_internal.job_end_due.state IS 'How it has ended.';
COMMENT ON COLUMN agentq_internal.job_end_due.result IS 'Its result.';
COMMENT ON COLUMN agentq_internal.job_end_due.error IS 'Its error.';
COMMENT ON COLUMN agentq_internal.job_end_due.context IS 'What it belonged to.';

SELECT pg_catalog.pg_extension_config_dump('agentq_internal.job_end_due', '');
