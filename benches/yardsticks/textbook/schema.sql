-- The textbook yardstick: the plainest SKIP LOCKED queue, as in a hundred blog posts. One table, one
-- partial index, no functions: the client sends the statements (see scripts/textbook).
--
-- It does far less than agentq: no lease and no owner (a worker that dies keeps its job for ever),
-- no kinds in claims, no priorities, no retries, no idempotency keys, no history, no checks. It is
-- here as the bar: what the same work costs when nearly nothing is promised.

CREATE TABLE jobs (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind      text NOT NULL,
    payload   jsonb NOT NULL,
    state     text NOT NULL DEFAULT 'queued',
    run_at    timestamptz NOT NULL DEFAULT now(),
    locked_at timestamptz,
    done_at   timestamptz
);

CREATE INDEX jobs_queued_idx ON jobs (run_at, id) WHERE state = 'queued';
