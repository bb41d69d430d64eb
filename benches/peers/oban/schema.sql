-- oban's table, indexes and constraints as its Postgres migrations 1 to 15 leave them (the sum, not
-- the steps). oban is an Elixir library and makes this with Ecto; it is written out by hand here.

CREATE TYPE oban_job_state AS ENUM (
    'available', 'suspended', 'scheduled', 'executing', 'retryable', 'completed', 'discarded', 'cancelled'
);

CREATE TABLE oban_jobs (
    id           bigserial PRIMARY KEY,
    state        oban_job_state NOT NULL DEFAULT 'available',
    queue        text NOT NULL DEFAULT 'default',
    worker       text NOT NULL,
    args         jsonb NOT NULL DEFAULT '{}',
    errors       jsonb[] NOT NULL DEFAULT ARRAY[]::jsonb[],
    attempt      integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL DEFAULT 20,
    inserted_at  timestamp NOT NULL DEFAULT timezone('UTC', now()),
    scheduled_at timestamp NOT NULL DEFAULT timezone('UTC', now()),
    attempted_at timestamp,
    completed_at timestamp,
    attempted_by text[],
    discarded_at timestamp,
    priority     integer NOT NULL DEFAULT 0,
    tags         text[] DEFAULT ARRAY[]::text[],
    meta         jsonb DEFAULT '{}',
    cancelled_at timestamp,
    CONSTRAINT worker_length CHECK (char_length(worker) > 0 AND char_length(worker) < 128),
    CONSTRAINT queue_length CHECK (char_length(queue) > 0 AND char_length(queue) < 128),
    CONSTRAINT positive_max_attempts CHECK (max_attempts > 0),
    CONSTRAINT attempt_range CHECK (attempt BETWEEN 0 AND max_attempts),
    CONSTRAINT non_negative_priority CHECK (priority >= 0)
);

-- For fetching.
CREATE INDEX oban_jobs_state_queue_priority_scheduled_at_id_index
    ON oban_jobs (state, queue, priority, scheduled_at, id);
-- For unique jobs.
CREATE INDEX oban_jobs_args_index ON oban_jobs USING gin (args);
CREATE INDEX oban_jobs_meta_index ON oban_jobs USING gin (meta);
-- For pruning.
CREATE INDEX oban_jobs_state_cancelled_at_index ON oban_jobs (state, cancelled_at);
CREATE INDEX oban_jobs_state_discarded_at_index ON oban_jobs (state, discarded_at);
-- For staging jobs that come due.
CREATE INDEX oban_jobs_staging_idx ON oban_jobs (scheduled_at, id) WHERE state IN ('scheduled', 'retryable');
