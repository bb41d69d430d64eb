-- The limit: no queue at all, only the bare statements that any queue in a table has to make. One
-- table with the usual columns, one index, no functions. The client picks the ids itself, so that
-- nobody looks for work and nobody waits for anybody: what is left is a row, its index entry, its
-- WAL and its commit. See scripts/limit.

CREATE TABLE job (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind         text NOT NULL,
    priority     integer NOT NULL DEFAULT 100,
    state        text NOT NULL DEFAULT 'queued',
    attempts     integer NOT NULL DEFAULT 0,
    created_at   timestamptz NOT NULL DEFAULT now(),
    scheduled_at timestamptz NOT NULL DEFAULT now(),
    locked_by    text,
    locked_at    timestamptz,
    finished_at  timestamptz,
    payload      jsonb NOT NULL
);
