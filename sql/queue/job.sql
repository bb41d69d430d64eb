-- The storage of jobs. One row per job in `job`, which hardly ever changes, and one row in the
-- place where the job now is:
--
--   job_ready    may run now; a claim deletes from it and nothing else walks over it
--   job_waiting  may run later (scheduled, snoozed, retry_waiting); moved to job_ready when due
--   job_line     waits for a limit, a budget or an ordering key; or may run now, from a fair line
--   job_lease    held by a worker
--   job_done     finished; append-only, with the attempt that succeeded
--
-- A job is in exactly one of the five. fn_queue_verify() looks for any that is not. The place is
-- found from the job itself: job_ready and job_waiting repeat priority and scheduled_at of `job`,
-- so neither needs an index on job_id. There are no foreign keys between them: each would lock the
-- parent row on every claim.

CREATE TABLE agentq_internal.job (
    job_id          uuid NOT NULL,
    queue_id        integer NOT NULL,
    priority        agentq_internal.job_count NOT NULL,
    attempts        agentq_internal.job_count NOT NULL DEFAULT 0,
    max_attempts    agentq_internal.job_limit NOT NULL,
    scheduled_at    timestamptz NOT NULL,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz,
    picked_at       timestamptz,
    run_id          uuid,
    resting_state   agentq_internal.job_resting_state,
    job_kind        agentq_internal.job_name NOT NULL,
    actor           agentq_internal.job_name NOT NULL,
    idempotency_key agentq_internal.job_key_text,
    source_ref      text,
    target_ref      text,
    payload_ref     text,
    last_error      text,
    payload_json    agentq_internal.job_payload NOT NULL DEFAULT '{}',
    start_by        timestamptz,
    finish_by       timestamptz,
    external_effects boolean,
    parked          text,
    replay_of       uuid,
    replay_count    integer,
    limit_keys      text[],
    ordering_key    text COLLATE "C",
    limit_weights   integer[],
    cost            jsonb,
    fairness_key    text COLLATE "C",
    requires        text[],
    on_end          text,
    waits_for       jsonb,
    stall_seconds   integer,
    context         jsonb,
    retry           jsonb,
    enqueued_by     text COLLATE "C",
    CONSTRAINT job_pkey PRIMARY KEY (job_id)
);
COMMENT ON TABLE agentq_internal.job IS 'Storage: what a job is. Read job_queue instead, which shows where it stands too.';
COMMENT ON COLUMN agentq_internal.job.job_id IS 'Time-ordered id, so that its index stays warm.';
COMMENT ON COLUMN agentq_internal.job.queue_id IS 'The queue it belongs to.';
COMMENT ON COLUMN agentq_internal.job.priority IS 'A smaller number runs first.';
COMMENT ON COLUMN agentq_internal.job.attempts IS 'Attempts that ended without success.';
COMMENT ON COLUMN agentq_internal.job.max_attempts IS 'The job gets at most this many attempts, and then ends in the dead letters.';
COMMENT ON COLUMN agentq_internal.job.scheduled_at IS 'It does not run before this.';
COMMENT ON COLUMN agentq_internal.job.created_at IS 'When it was enqueued.';
COMMENT ON COLUMN agentq_internal.job.updated_at IS 'When this row last changed; NULL: not since it was enqueued.';
COMMENT ON COLUMN agentq_internal.job.picked_at IS 'When it was last claimed, if it has been given back since.';
COMMENT ON COLUMN agentq_internal.job.run_id IS 'The caller''s own run, if any.';
COMMENT ON COLUMN agentq_internal.job.resting_state IS 'queued or retry_waiting: its state while it is neither held nor finished; NULL: queued.';
COMMENT ON COLUMN agentq_internal.job.job_kind IS 'What kind of work it is; workers claim by kind.';
COMMENT ON COLUMN agentq_internal.job.actor IS 'Who enqueued it.';
COMMENT ON COLUMN agentq_internal.job.idempotency_key IS 'The caller''s key; NULL: the job id serves as its key.';
COMMENT ON COLUMN agentq_internal.job.source_ref IS 'Where the work comes from.';
COMMENT ON COLUMN agentq_internal.job.target_ref IS 'What it is about.';
COMMENT ON COLUMN agentq_internal.job.payload_ref IS 'Where the data is.';
COMMENT ON COLUMN agentq_internal.job.last_error IS 'Error of the last attempt that failed.';
COMMENT ON COLUMN agentq_internal.job.payload_json IS 'A small signal; content and secrets are refused.';
COMMENT ON COLUMN agentq_internal.job.start_by IS 'If it has not been claimed by then, it is given up.';
COMMENT ON COLUMN agentq_internal.job.finish_by IS 'If it has not finished by then, it is given up.';
COMMENT ON COLUMN agentq_internal.job.external_effects IS 'Whether it has effects outside that must not happen twice: if its lease expires, it is parked.';
COMMENT ON COLUMN agentq_internal.job.parked IS 'Why it waits for a person; NULL: it does not.';
COMMENT ON COLUMN agentq_internal.job.replay_of IS 'The job of which this one is another run.';
COMMENT ON COLUMN agentq_internal.job.replay_count IS 'How many runs of the same work came before; NULL: none.';
COMMENT ON COLUMN agentq_internal.job.limit_keys IS 'The keys that it was enqueued with, by which limits count it.';
COMMENT ON COLUMN agentq_internal.job.ordering_key IS 'Jobs of its queue with the same key run one at a time, in order.';
COMMENT ON COLUMN agentq_internal.job.limit_weights IS 'How much of a rate each of limit_keys takes; NULL: 1.';
COMMENT ON COLUMN agentq_internal.job.cost IS 'What it is expected to cost, by unit: reserved of budgets while it is held.';
COMMENT ON COLUMN agentq_internal.job.fairness_key IS 'Jobs of its queue take turns by this key.';
COMMENT ON COLUMN agentq_internal.job.requires IS 'Capabilities that its worker must have.';
COMMENT ON COLUMN agentq_internal.job.on_end IS 'Who in the extension is told when it has finished, a colon, and what about; NULL: nobody.';
COMMENT ON COLUMN agentq_internal.job.waits_for IS 'What it rests for, if not for time alone, as fn_job_explain tells it. It holds while scheduled_at is what "at" says.';
COMMENT ON COLUMN agentq_internal.job.stall_seconds IS 'A holder that makes no progress for this long loses it; NULL: nobody looks.';
COMMENT ON COLUMN agentq_internal.job.context IS 'What it belongs to: trace_id, traceparent, correlation_id, mission_id, command_id, agent_run_id, swarm_run_id. Its worker gets it, and so does every event about it; NULL: nothing.';
COMMENT ON COLUMN agentq_internal.job.enqueued_by IS 'The role that enqueued it, if actor is another name; NULL: actor is that role.';
COMMENT ON COLUMN agentq_internal.job.retry IS 'How it is tried again, as far as that is not what its kind, its queue or the default say; NULL: all of it is.';

CREATE TABLE agentq_internal.job_ready (
    scheduled_at timestamptz NOT NULL,
    queue_id     integer NOT NULL,
    any_queue_id integer NOT NULL,
    priority     integer NOT NULL,
    job_id       uuid NOT NULL,
    keyed        boolean NOT NULL,
    job_kind     text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
-- Claims that name a kind, and claims that take any kind, each read one of these from the front:
-- highest priority, then schedule, then age, without a sort. The queue stands in two columns, one
-- for each index, so that no statistics can ever make a claim read the wrong one.
CREATE UNIQUE INDEX job_ready_any_idx ON agentq_internal.job_ready (any_queue_id, priority, scheduled_at, job_id);
CREATE INDEX job_ready_kind_idx ON agentq_internal.job_ready (queue_id, job_kind, priority, scheduled_at, job_id) WITH (deduplicate_items = off);
COMMENT ON TABLE agentq_internal.job_ready IS 'Storage: jobs that may run now. A claim deletes the row.';
COMMENT ON COLUMN agentq_internal.job_ready.scheduled_at IS 'As in job.';
COMMENT ON COLUMN agentq_internal.job_ready.queue_id IS 'As in job.';
COMMENT ON COLUMN agentq_internal.job_ready.any_queue_id IS 'The queue again, for claims of any kind.';
COMMENT ON COLUMN agentq_internal.job_ready.priority IS 'As in job.';
COMMENT ON COLUMN agentq_internal.job_ready.job_id IS 'The job.';
COMMENT ON COLUMN agentq_internal.job_ready.keyed IS 'Whether it was given an idempotency key.';
COMMENT ON COLUMN agentq_internal.job_ready.job_kind IS 'As in job.';

CREATE TABLE agentq_internal.job_waiting (
    scheduled_at timestamptz NOT NULL,
    job_id       uuid NOT NULL,
    CONSTRAINT job_waiting_pkey PRIMARY KEY (scheduled_at, job_id)
);
COMMENT ON TABLE agentq_internal.job_waiting IS 'Storage: jobs that may run later, kept out of the way of claims.';
COMMENT ON COLUMN agentq_internal.job_waiting.scheduled_at IS 'As in job.';
COMMENT ON COLUMN agentq_internal.job_waiting.job_id IS 'The job.';

-- A claim puts a job here when a limit or a budget has nothing left for it, so that the next claims do not find it
-- again. A claim takes it from here when there is something. Jobs with a fairness key, or that require capabilities,
-- stand here in fair lines instead of in job_ready: they may run, but take turns, or only some workers may read them.
CREATE TABLE agentq_internal.job_line (
    scheduled_at timestamptz NOT NULL,
    queue_id     integer NOT NULL,
    any_queue_id integer NOT NULL,
    priority     integer NOT NULL,
    job_id       uuid NOT NULL,
    keyed        boolean NOT NULL,
    job_kind     text COLLATE "C" NOT NULL,
    line   text COLLATE "C" NOT NULL,
    CONSTRAINT job_line_pkey PRIMARY KEY (job_id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX job_line_any_idx ON agentq_internal.job_line (line, any_queue_id, priority, scheduled_at, job_id);
CREATE INDEX job_line_kind_idx ON agentq_internal.job_line (line, queue_id, job_kind, priority, scheduled_at, job_id);
COMMENT ON TABLE agentq_internal.job_line IS 'Storage: jobs that stand in a line: for a limit, for a budget, behind another job with their ordering key, or in a fair line, from which they may run now.';
COMMENT ON COLUMN agentq_internal.job_line.scheduled_at IS 'As in job.';
COMMENT ON COLUMN agentq_internal.job_line.queue_id IS 'As in job.';
COMMENT ON COLUMN agentq_internal.job_line.any_queue_id IS 'The queue again, for claims of any kind.';
COMMENT ON COLUMN agentq_internal.job_line.priority IS 'As in job.';
COMMENT ON COLUMN agentq_internal.job_line.job_id IS 'The job.';
COMMENT ON COLUMN agentq_internal.job_line.keyed IS 'Whether it was given an idempotency key.';
COMMENT ON COLUMN agentq_internal.job_line.job_kind IS 'As in job.';
COMMENT ON COLUMN agentq_internal.job_line.line IS 'The key of the limit that had no slot, the budget that was exhausted, order:<key> of an ordering key at whose head is another job, or fair:<queue id>|<capabilities>|<fairness key> of a job that may run now.';

CREATE TABLE agentq_internal.job_lease (
    job_id        uuid NOT NULL,
    lease_token   uuid NOT NULL,
    lease_until   timestamptz NOT NULL,
    picked_at     timestamptz NOT NULL,
    started_at    timestamptz,
    keyed         boolean NOT NULL,
    lease_owner   agentq_internal.job_name NOT NULL,
    cancel_reason text,
    limits        text[],
    reserved      text[],
    lease_seconds integer,
    heartbeat_at  timestamptz,
    stall_seconds integer,
    run           jsonb,
    CONSTRAINT job_lease_pkey PRIMARY KEY (job_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
-- No index on lease_until: with one, every claim would pay for what hardly any needs, and a
-- heartbeat could not change the row in place. Whoever looks for expired leases reads the table,
-- which holds no more than what is being worked on.
COMMENT ON TABLE agentq_internal.job_lease IS 'Storage: jobs that a worker holds, until when, and with which token.';
COMMENT ON COLUMN agentq_internal.job_lease.job_id IS 'The job.';
COMMENT ON COLUMN agentq_internal.job_lease.lease_token IS 'New with every claim: whoever has another one has lost the lease.';
COMMENT ON COLUMN agentq_internal.job_lease.lease_until IS 'After this the job may be given to another.';
COMMENT ON COLUMN agentq_internal.job_lease.picked_at IS 'When it was claimed.';
COMMENT ON COLUMN agentq_internal.job_lease.started_at IS 'When the holder said it had begun; NULL: leased, else in_progress.';
COMMENT ON COLUMN agentq_internal.job_lease.lease_owner IS 'Who holds it.';
COMMENT ON COLUMN agentq_internal.job_lease.cancel_reason IS 'Why it is to be cancelled, empty if nobody said; NULL: it is not.';
COMMENT ON COLUMN agentq_internal.job_lease.keyed IS 'Whether an ack must free its idempotency key.';
COMMENT ON COLUMN agentq_internal.job_lease.limits IS 'The keys of which it holds a slot.';
COMMENT ON COLUMN agentq_internal.job_lease.reserved IS 'What it has reserved of budgets: millionths of the unit, a blank, or + once its worker has told of its use, and the counter.';
COMMENT ON COLUMN agentq_internal.job_lease.lease_seconds IS 'How long the lease was asked to be; NULL: as long as its queue, or the setting, says.';
COMMENT ON COLUMN agentq_internal.job_lease.heartbeat_at IS 'When its holder last extended it.';
COMMENT ON COLUMN agentq_internal.job_lease.stall_seconds IS 'As in job.';
COMMENT ON COLUMN agentq_internal.job_lease.run IS 'What its holder says of its run: run_id and meta.';

CREATE TABLE agentq_internal.job_done (
    job_id      uuid NOT NULL,
    lease_token uuid,
    finished_at timestamptz NOT NULL,
    picked_at   timestamptz,
    state       agentq_internal.job_finished_state,
    lease_owner agentq_internal.job_name,
    cancel_reason text,
    result      jsonb,
    run         jsonb,
    CONSTRAINT job_done_pkey PRIMARY KEY (job_id)
);
-- Hardly any work for an ack; lets the engine find what has finished in the last minute.
CREATE INDEX job_done_finished_idx ON agentq_internal.job_done USING brin (finished_at) WITH (pages_per_range = 16, autosummarize = on);
COMMENT ON TABLE agentq_internal.job_done IS 'Storage: finished jobs. A success has its attempt here, any other end in job_attempt_log. Written once.';
COMMENT ON COLUMN agentq_internal.job_done.job_id IS 'The job.';
COMMENT ON COLUMN agentq_internal.job_done.lease_token IS 'Token of the attempt that succeeded.';
COMMENT ON COLUMN agentq_internal.job_done.finished_at IS 'When it finished.';
COMMENT ON COLUMN agentq_internal.job_done.picked_at IS 'When the last attempt began.';
COMMENT ON COLUMN agentq_internal.job_done.state IS 'How the job ended; NULL: it succeeded.';
COMMENT ON COLUMN agentq_internal.job_done.lease_owner IS 'Who made the attempt that succeeded.';
COMMENT ON COLUMN agentq_internal.job_done.cancel_reason IS 'Why it was cancelled.';
COMMENT ON COLUMN agentq_internal.job_done.result IS 'What the worker handed in.';
COMMENT ON COLUMN agentq_internal.job_done.run IS 'What the worker said of its run: run_id and meta.';

-- Instead of a CHECK, which the server would read anew for every ack, a twentieth of the time of a claim and an ack.
CREATE FUNCTION agentq_internal.fn_job_done_keep() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'a finished job is written once: the row of job % in agentq_internal.job_done cannot be changed', OLD.job_id
        USING ERRCODE = 'check_violation', HINT = 'Remove old ones with agentq.fn_job_purge, or enqueue the work anew.';
END $$;
COMMENT ON FUNCTION agentq_internal.fn_job_done_keep() IS 'Trigger: refuses to change a finished job.';

CREATE TRIGGER tr_job_done_keep BEFORE UPDATE ON agentq_internal.job_done
    FOR EACH ROW EXECUTE FUNCTION agentq_internal.fn_job_done_keep();
COMMENT ON TRIGGER tr_job_done_keep ON agentq_internal.job_done IS 'A finished job is written once.';

CREATE TABLE agentq_internal.job_attempt_log (
    job_id      uuid NOT NULL,
    lease_token uuid NOT NULL,
    began_at    timestamptz NOT NULL,
    ended_at    timestamptz NOT NULL,
    outcome     agentq_internal.job_outcome NOT NULL,
    lease_owner agentq_internal.job_name NOT NULL,
    error_class text,
    error       text,
    error_detail text,
    run         jsonb,
    CONSTRAINT job_attempt_log_pkey PRIMARY KEY (job_id, lease_token)
);
COMMENT ON TABLE agentq_internal.job_attempt_log IS 'Storage: attempts that ended without success. Read job_attempt instead.';
COMMENT ON COLUMN agentq_internal.job_attempt_log.job_id IS 'The job.';
COMMENT ON COLUMN agentq_internal.job_attempt_log.lease_token IS 'The attempt''s token.';
COMMENT ON COLUMN agentq_internal.job_attempt_log.began_at IS 'When it was claimed.';
COMMENT ON COLUMN agentq_internal.job_attempt_log.ended_at IS 'When it ended.';
COMMENT ON COLUMN agentq_internal.job_attempt_log.outcome IS 'How it ended.';
COMMENT ON COLUMN agentq_internal.job_attempt_log.lease_owner IS 'Who made it.';
COMMENT ON COLUMN agentq_internal.job_attempt_log.error_class IS 'Class of its error.';
COMMENT ON COLUMN agentq_internal.job_attempt_log.error IS 'Its error.';
COMMENT ON COLUMN agentq_internal.job_attempt_log.error_detail IS 'What else is to be known of its error, such as a stack.';
COMMENT ON COLUMN agentq_internal.job_attempt_log.run IS 'What its worker said of its run: run_id and meta.';

-- The partial unique rule on active states: a row for each key in use, gone when its job finishes.
CREATE TABLE agentq_internal.job_key (
    idempotency_key text COLLATE "C" NOT NULL,
    job_id          uuid NOT NULL,
    CONSTRAINT job_queue_idempotency_active_uq PRIMARY KEY (idempotency_key)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
COMMENT ON TABLE agentq_internal.job_key IS 'Storage: the idempotency keys of unfinished jobs. Its primary key is what makes a second enqueue a duplicate.';
COMMENT ON COLUMN agentq_internal.job_key.idempotency_key IS 'The key in use.';
COMMENT ON COLUMN agentq_internal.job_key.job_id IS 'The job that uses it.';

CREATE TABLE agentq_internal.job_checkpoint (
    job_id     uuid NOT NULL,
    saved_at   timestamptz NOT NULL,
    checkpoint jsonb NOT NULL,
    CONSTRAINT job_checkpoint_pkey PRIMARY KEY (job_id)
) WITH (fillfactor = 70);
COMMENT ON TABLE agentq_internal.job_checkpoint IS 'Storage: the last checkpoint of a job, handed to whoever claims it next.';
COMMENT ON COLUMN agentq_internal.job_checkpoint.job_id IS 'The job.';
COMMENT ON COLUMN agentq_internal.job_checkpoint.saved_at IS 'When it was saved.';
COMMENT ON COLUMN agentq_internal.job_checkpoint.checkpoint IS 'What the worker saved.';

-- For each ordering key in use, the one unfinished job that may run. The others are in job_line.
CREATE TABLE agentq_internal.job_order (
    queue_id     integer NOT NULL,
    ordering_key text COLLATE "C" NOT NULL,
    job_id       uuid NOT NULL,
    CONSTRAINT job_order_pkey PRIMARY KEY (queue_id, ordering_key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
COMMENT ON TABLE agentq_internal.job_order IS 'Storage: the job at the head of each ordering key.';
COMMENT ON COLUMN agentq_internal.job_order.queue_id IS 'The queue.';
COMMENT ON COLUMN agentq_internal.job_order.ordering_key IS 'The key.';
COMMENT ON COLUMN agentq_internal.job_order.job_id IS 'The first of its unfinished jobs; or the last that has finished, while the key is in job_order_due.';

-- Windows in which no second job with a key is let through, though the first may have finished.
CREATE TABLE agentq_internal.job_throttle (
    idempotency_key text COLLATE "C" NOT NULL,
    job_id          uuid NOT NULL,
    expires_at      timestamptz NOT NULL,
    CONSTRAINT job_throttle_pkey PRIMARY KEY (idempotency_key)
);
CREATE INDEX job_throttle_expires_idx ON agentq_internal.job_throttle (expires_at);
COMMENT ON TABLE agentq_internal.job_throttle IS 'Storage: until when enqueues with a key are throttled.';
COMMENT ON COLUMN agentq_internal.job_throttle.idempotency_key IS 'The key.';
COMMENT ON COLUMN agentq_internal.job_throttle.job_id IS 'The job that was let through.';
COMMENT ON COLUMN agentq_internal.job_throttle.expires_at IS 'When the next is let through; the engine removes the row after that.';

-- Only jobs that have a deadline have rows here. A row of a job that has finished goes when it falls due.
CREATE TABLE agentq_internal.job_deadline (
    deadline_at timestamptz NOT NULL,
    job_id      uuid NOT NULL,
    what        text NOT NULL,
    CONSTRAINT job_deadline_pkey PRIMARY KEY (deadline_at, job_id, what),
    CONSTRAINT job_deadline_what_check CHECK (what IN ('start', 'finish'))
);
COMMENT ON TABLE agentq_internal.job_deadline IS 'Storage: when which job must have been begun or finished.';
COMMENT ON COLUMN agentq_internal.job_deadline.deadline_at IS 'When.';
COMMENT ON COLUMN agentq_internal.job_deadline.job_id IS 'The job.';
COMMENT ON COLUMN agentq_internal.job_deadline.what IS 'start or finish.';

CREATE FUNCTION agentq_internal.fn_job_queue_updated_at() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.updated_at := agentq.fn_clock_now();
    RETURN NEW;
END $$;
COMMENT ON FUNCTION agentq_internal.fn_job_queue_updated_at() IS 'Trigger: refreshes updated_at.';

CREATE TRIGGER tr_job_queue_updated_at BEFORE UPDATE ON agentq_internal.job
    FOR EACH ROW EXECUTE FUNCTION agentq_internal.fn_job_queue_updated_at();
COMMENT ON TRIGGER tr_job_queue_updated_at ON agentq_internal.job IS 'Refreshes updated_at.';

SELECT pg_catalog.pg_extension_config_dump('agentq_internal.job', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.job_ready', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.job_waiting', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.job_lease', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.job_done', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.job_attempt_log', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.job_key', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.job_checkpoint', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.job_deadline', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.job_line', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.job_order', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.job_throttle', '');
