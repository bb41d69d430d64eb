-- How the queue stood, minute by minute.
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

SELECT pg_catalog.pg_extension_config_dump('agentq.metric', '');
