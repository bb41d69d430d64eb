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
    CONSTRAINT schedule_job_check CHECK (jsonb_typeof(job) = 'object' AND (job ? 'job_kind' OR job ? 'start')),
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
COMMENT ON COLUMN agentq.schedule.last_job_id IS 'The job of the last slot, or the mission or proposal.';
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
COMMENT ON COLUMN agentq.v_schedule.last_job_id IS 'The job of the last slot, or the mission or proposal.';
COMMENT ON COLUMN agentq.v_schedule.fired IS 'Jobs enqueued so far.';
COMMENT ON COLUMN agentq.v_schedule.skipped IS 'Slots left out because the job before had not finished.';

SELECT pg_catalog.pg_extension_config_dump('agentq.schedule', '');
