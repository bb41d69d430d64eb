-- A table as its room would define it.
CREATE TABLE agentq.next_thing (
    next_id    uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    CONSTRAINT next_thing_pkey PRIMARY KEY (next_id)
);
COMMENT ON TABLE agentq.next_thing IS 'What the next version has more.';
COMMENT ON COLUMN agentq.next_thing.next_id IS 'The thing.';
COMMENT ON COLUMN agentq.next_thing.created_at IS 'When it was made.';
REVOKE ALL ON agentq.next_thing FROM PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('agentq.next_thing', '');
