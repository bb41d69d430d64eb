-- Steps of missions that wait for a time or a signal, and for no worker.
CREATE TABLE agentq.mission_wait (
    step_id       uuid NOT NULL,
    until         timestamptz,
    name          text COLLATE "C",
    key           text COLLATE "C",
    is_open       boolean NOT NULL DEFAULT false,
    due_at        timestamptz NOT NULL,
    registered_at timestamptz NOT NULL,
    result        jsonb,
    CONSTRAINT mission_wait_pkey PRIMARY KEY (step_id),
    CONSTRAINT mission_wait_what_check CHECK ((name IS NULL) = (key IS NULL) AND (name IS NOT NULL OR until IS NOT NULL)),
    CONSTRAINT mission_wait_open_check CHECK (NOT is_open OR (name IS NOT NULL AND result IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX mission_wait_due_idx ON agentq.mission_wait (due_at);
CREATE INDEX mission_wait_signal_idx ON agentq.mission_wait (name, key, registered_at, step_id) WHERE is_open;
COMMENT ON TABLE agentq.mission_wait IS 'Steps of missions that sleep, or wait for a signal, without a worker. Gone when they have ended.';
COMMENT ON COLUMN agentq.mission_wait.step_id IS 'The step.';
COMMENT ON COLUMN agentq.mission_wait.until IS 'When the sleep is over, or when the step fails if no signal has come; NULL: it waits as long as it takes.';
COMMENT ON COLUMN agentq.mission_wait.name IS 'The signal that it waits for; NULL: it sleeps.';
COMMENT ON COLUMN agentq.mission_wait.key IS 'The key of that signal.';
COMMENT ON COLUMN agentq.mission_wait.is_open IS 'Whether senders leave their signal with it: the engine has seen that none was there before.';
COMMENT ON COLUMN agentq.mission_wait.due_at IS 'When the engine looks at it next.';
COMMENT ON COLUMN agentq.mission_wait.registered_at IS 'Since when it waits; who has waited longest is served first.';
COMMENT ON COLUMN agentq.mission_wait.result IS 'The signal that came, until the engine has ended the step.';
SELECT pg_catalog.pg_extension_config_dump('agentq.mission_wait', '');
