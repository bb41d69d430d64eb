-- The end of a head waits for nobody. Where it could not see or take the next job, it leaves word here.
CREATE TABLE agentq_internal.job_order_due (
    due_at       timestamptz NOT NULL,
    job_id       uuid NOT NULL,
    queue_id     integer NOT NULL,
    ordering_key text COLLATE "C" NOT NULL,
    tries        integer NOT NULL DEFAULT 0,
    CONSTRAINT job_order_due_pkey PRIMARY KEY (due_at, job_id)
);
COMMENT ON TABLE agentq_internal.job_order_due IS 'Storage: ordering keys whose head has finished, and that wait for their next one.';
COMMENT ON COLUMN agentq_internal.job_order_due.due_at IS 'When it is tried next.';
COMMENT ON COLUMN agentq_internal.job_order_due.job_id IS 'The job that has finished.';
COMMENT ON COLUMN agentq_internal.job_order_due.queue_id IS 'The queue.';
COMMENT ON COLUMN agentq_internal.job_order_due.ordering_key IS 'The key.';
COMMENT ON COLUMN agentq_internal.job_order_due.tries IS 'How often somebody was in the way.';

SELECT pg_catalog.pg_extension_config_dump('agentq_internal.job_order_due', '');
