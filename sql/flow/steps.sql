-- What a job has already done: its steps, the actions that must happen once, and the signals it waits for.

-- A step is begun, then done or failed. Whoever asks for one that is done is given its result. The primary key finds a
-- step by name; the index by position answers in which order the steps were first begun. No foreign key to job: see
-- the chore clean_flow, which removes the steps of jobs that are gone.
CREATE TABLE agentq_internal.job_step (
    job_id      uuid NOT NULL,
    name        text COLLATE "C" NOT NULL,
    occurrence  integer NOT NULL,
    position    integer NOT NULL,
    attempts    integer NOT NULL DEFAULT 1,
    kind        text COLLATE "C" NOT NULL DEFAULT 'step',
    status      text COLLATE "C" NOT NULL DEFAULT 'begun',
    idempotent  boolean NOT NULL DEFAULT true,
    lease_token uuid,
    seen_by     uuid,
    began_at    timestamptz NOT NULL,
    ended_at    timestamptz,
    until_at    timestamptz,
    inputs_hash text COLLATE "C" NOT NULL,
    inputs_keys jsonb,
    result      jsonb,
    error       text,
    order_job_id uuid NOT NULL GENERATED ALWAYS AS (job_id) STORED,
    CONSTRAINT job_step_pkey PRIMARY KEY (job_id, name, occurrence),
    CONSTRAINT job_step_name_check CHECK (btrim(name) <> '' AND octet_length(name) <= 500),
    CONSTRAINT job_step_numbers_check CHECK (occurrence >= 1 AND position >= 1 AND attempts >= 1),
    CONSTRAINT job_step_kind_check CHECK (kind IN ('step', 'sleep', 'signal')),
    CONSTRAINT job_step_status_check CHECK (status IN ('begun', 'done', 'failed')),
    CONSTRAINT job_step_ended_check CHECK ((status = 'begun') = (ended_at IS NULL)),
    CONSTRAINT job_step_result_check CHECK (result IS NULL OR status = 'done'),
    CONSTRAINT job_step_error_check CHECK ((error IS NOT NULL) = (status = 'failed')),
    CONSTRAINT job_step_hash_check CHECK (inputs_hash ~ '^[0-9a-f]{64}$'),
    CONSTRAINT job_step_until_check CHECK (kind <> 'sleep' OR until_at IS NOT NULL)
) WITH (fillfactor = 80);
-- The job stands in two columns, one for each index, so that no statistics can ever make a search by name read all the
-- steps of a job by position.
CREATE INDEX job_step_position_idx ON agentq_internal.job_step (order_job_id, position);
COMMENT ON TABLE agentq_internal.job_step IS 'Storage: the steps of jobs. Read v_job_step instead.';
COMMENT ON COLUMN agentq_internal.job_step.job_id IS 'The job.';
COMMENT ON COLUMN agentq_internal.job_step.name IS 'Name of the step.';
COMMENT ON COLUMN agentq_internal.job_step.occurrence IS '1, or which turn of a loop it is.';
COMMENT ON COLUMN agentq_internal.job_step.position IS 'The order in which the steps of the job were first begun, from 1.';
COMMENT ON COLUMN agentq_internal.job_step.attempts IS 'How often it was begun.';
COMMENT ON COLUMN agentq_internal.job_step.kind IS 'step, or sleep or signal: a wait that is remembered like a step.';
COMMENT ON COLUMN agentq_internal.job_step.status IS 'begun, done or failed.';
COMMENT ON COLUMN agentq_internal.job_step.idempotent IS 'Whether it may be run again when nobody knows whether it was done.';
COMMENT ON COLUMN agentq_internal.job_step.lease_token IS 'The attempt that last began it; NULL: taken over from the job of which this is another run.';
COMMENT ON COLUMN agentq_internal.job_step.seen_by IS 'The attempt that last asked for it.';
COMMENT ON COLUMN agentq_internal.job_step.began_at IS 'When it was last begun.';
COMMENT ON COLUMN agentq_internal.job_step.ended_at IS 'When it was done, or failed.';
COMMENT ON COLUMN agentq_internal.job_step.until_at IS 'Until when the job sleeps or waits; NULL: without end.';
COMMENT ON COLUMN agentq_internal.job_step.inputs_hash IS 'SHA-256 of its inputs in canonical form.';
COMMENT ON COLUMN agentq_internal.job_step.inputs_keys IS 'The beginning of the hash of each member of the inputs, to say which one changed.';
COMMENT ON COLUMN agentq_internal.job_step.result IS 'What it gave.';
COMMENT ON COLUMN agentq_internal.job_step.error IS 'Why it failed.';
COMMENT ON COLUMN agentq_internal.job_step.order_job_id IS 'The job again, for the order of its steps.';

-- One row for each thing that must be done once, whoever tries. The primary key decides who has won.
CREATE TABLE agentq.action (
    action_key  text COLLATE "C" NOT NULL,
    action_type text COLLATE "C" NOT NULL,
    inputs_hash text COLLATE "C" NOT NULL,
    inputs_keys jsonb,
    status      text COLLATE "C" NOT NULL DEFAULT 'in_progress',
    holder      text COLLATE "C" NOT NULL,
    token       uuid NOT NULL,
    attempts    integer NOT NULL DEFAULT 1,
    job_id      uuid,
    lease_token uuid,
    began_at    timestamptz NOT NULL,
    lease_until timestamptz NOT NULL,
    executed_at timestamptz,
    keep_seconds double precision NOT NULL DEFAULT 604800,
    expires_at  timestamptz NOT NULL,
    result      jsonb,
    error       text,
    CONSTRAINT action_pkey PRIMARY KEY (action_key),
    CONSTRAINT action_key_check CHECK (btrim(action_key) <> '' AND octet_length(action_key) <= 1000),
    CONSTRAINT action_names_check CHECK (btrim(action_type) <> '' AND btrim(holder) <> ''),
    CONSTRAINT action_status_check CHECK (status IN ('in_progress', 'done', 'failed')),
    CONSTRAINT action_executed_check CHECK ((status = 'done') = (executed_at IS NOT NULL)),
    CONSTRAINT action_result_check CHECK (result IS NULL OR status = 'done'),
    CONSTRAINT action_error_check CHECK ((error IS NOT NULL) = (status = 'failed')),
    CONSTRAINT action_hash_check CHECK (inputs_hash ~ '^[0-9a-f]{64}$'),
    CONSTRAINT action_job_check CHECK ((job_id IS NULL) = (lease_token IS NULL)),
    CONSTRAINT action_keep_check CHECK (keep_seconds > 0)
) WITH (fillfactor = 80);
CREATE INDEX action_expires_idx ON agentq.action (expires_at);
COMMENT ON TABLE agentq.action IS 'Actions that must happen once: who does them, and what came of them.';
COMMENT ON COLUMN agentq.action.action_key IS 'Names the action: everybody who wants it done gives this key.';
COMMENT ON COLUMN agentq.action.action_type IS 'What kind of action it is.';
COMMENT ON COLUMN agentq.action.inputs_hash IS 'SHA-256 of its inputs in canonical form.';
COMMENT ON COLUMN agentq.action.inputs_keys IS 'The beginning of the hash of each member of the inputs, to say which one changed.';
COMMENT ON COLUMN agentq.action.status IS 'in_progress, done or failed.';
COMMENT ON COLUMN agentq.action.holder IS 'Who has won it last.';
COMMENT ON COLUMN agentq.action.token IS 'New with every win: whoever has another one has lost it.';
COMMENT ON COLUMN agentq.action.attempts IS 'How often it was won.';
COMMENT ON COLUMN agentq.action.job_id IS 'The job for which it is done, if any.';
COMMENT ON COLUMN agentq.action.lease_token IS 'The attempt of that job: when it has ended, another may take the action over.';
COMMENT ON COLUMN agentq.action.began_at IS 'When it was last won.';
COMMENT ON COLUMN agentq.action.lease_until IS 'After this another may take it over, unless it is done.';
COMMENT ON COLUMN agentq.action.executed_at IS 'When it was done.';
COMMENT ON COLUMN agentq.action.keep_seconds IS 'How long its result is kept.';
COMMENT ON COLUMN agentq.action.expires_at IS 'When it is forgotten.';
COMMENT ON COLUMN agentq.action.result IS 'What it gave.';
COMMENT ON COLUMN agentq.action.error IS 'Why it failed last.';

CREATE TABLE agentq.signal (
    signal_id    uuid NOT NULL,
    name         text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL,
    payload      jsonb NOT NULL DEFAULT '{}',
    dedupe_key   text COLLATE "C",
    sent_at      timestamptz NOT NULL,
    sent_by      text NOT NULL,
    expires_at   timestamptz NOT NULL,
    taken_by     uuid,
    taken_at     timestamptz,
    wake_pending boolean NOT NULL DEFAULT false,
    CONSTRAINT signal_pkey PRIMARY KEY (signal_id),
    CONSTRAINT signal_names_check CHECK (btrim(name) <> '' AND octet_length(name) <= 200 AND octet_length(key) <= 200),
    CONSTRAINT signal_taken_check CHECK ((taken_by IS NULL) = (taken_at IS NULL)),
    CONSTRAINT signal_wake_check CHECK (NOT wake_pending OR taken_by IS NOT NULL)
);
CREATE INDEX signal_free_idx ON agentq.signal (name, key, sent_at, signal_id) WHERE taken_by IS NULL;
CREATE UNIQUE INDEX signal_dedupe_idx ON agentq.signal (name, key, dedupe_key) WHERE dedupe_key IS NOT NULL;
CREATE INDEX signal_expires_idx ON agentq.signal (expires_at);
CREATE INDEX signal_wake_idx ON agentq.signal (signal_id) WHERE wake_pending;
COMMENT ON TABLE agentq.signal IS 'Signals that were sent, until they expire; each is taken by one wait.';
COMMENT ON COLUMN agentq.signal.signal_id IS 'Id of the signal.';
COMMENT ON COLUMN agentq.signal.name IS 'What it says, such as approved.';
COMMENT ON COLUMN agentq.signal.key IS 'What it is about; empty: nothing in particular.';
COMMENT ON COLUMN agentq.signal.payload IS 'What comes with it.';
COMMENT ON COLUMN agentq.signal.dedupe_key IS 'The sender''s key: a second one with the same name, key and dedupe key is not sent.';
COMMENT ON COLUMN agentq.signal.sent_at IS 'When it was sent; the oldest is taken first.';
COMMENT ON COLUMN agentq.signal.sent_by IS 'Who sent it.';
COMMENT ON COLUMN agentq.signal.expires_at IS 'When it is forgotten, taken or not.';
COMMENT ON COLUMN agentq.signal.taken_by IS 'The job, or the step of a mission, that waited for it; NULL: nobody yet.';
COMMENT ON COLUMN agentq.signal.taken_at IS 'When it was taken.';
COMMENT ON COLUMN agentq.signal.wake_pending IS 'The job could not be woken at once, because somebody else had it; the engine sees to it.';

CREATE TABLE agentq.signal_wait (
    job_id        uuid NOT NULL,
    name          text COLLATE "C" NOT NULL,
    key           text COLLATE "C" NOT NULL,
    step          text COLLATE "C" NOT NULL,
    occurrence    integer NOT NULL,
    registered_at timestamptz NOT NULL,
    CONSTRAINT signal_wait_pkey PRIMARY KEY (job_id)
);
CREATE INDEX signal_wait_name_idx ON agentq.signal_wait (name, key, registered_at, job_id);
COMMENT ON TABLE agentq.signal_wait IS 'Jobs that sleep until a signal comes.';
COMMENT ON COLUMN agentq.signal_wait.job_id IS 'The job.';
COMMENT ON COLUMN agentq.signal_wait.name IS 'The signal that it waits for.';
COMMENT ON COLUMN agentq.signal_wait.key IS 'Its key.';
COMMENT ON COLUMN agentq.signal_wait.step IS 'The step of the job that waits.';
COMMENT ON COLUMN agentq.signal_wait.occurrence IS 'Which turn of that step.';
COMMENT ON COLUMN agentq.signal_wait.registered_at IS 'Since when it waits; who has waited longest is served first.';

-- Senders and waits of one name and key lock its row, so that neither misses the other.
CREATE TABLE agentq_internal.signal_channel (
    name text COLLATE "C" NOT NULL,
    key  text COLLATE "C" NOT NULL,
    used integer NOT NULL DEFAULT 1,
    CONSTRAINT signal_channel_pkey PRIMARY KEY (name, key)
) WITH (fillfactor = 50);
COMMENT ON TABLE agentq_internal.signal_channel IS 'Storage: what senders and waits of one name and key lock. A row may go when nothing is sent and nobody waits.';
COMMENT ON COLUMN agentq_internal.signal_channel.name IS 'Name of the signal.';
COMMENT ON COLUMN agentq_internal.signal_channel.key IS 'Its key.';
COMMENT ON COLUMN agentq_internal.signal_channel.used IS 'Changed by whoever locks it.';

SELECT pg_catalog.pg_extension_config_dump('agentq_internal.job_step', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.action', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.signal', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.signal_wait', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.signal_channel', '');
