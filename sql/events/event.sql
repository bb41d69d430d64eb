-- The one log of what happened. Rows are added and, when they have expired, removed; never changed.
CREATE TABLE agentq.event (
    event_id   uuid NOT NULL,
    event_at   timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    purpose    text NOT NULL DEFAULT 'event',
    event_kind text NOT NULL,
    subject    text NOT NULL,
    payload    jsonb NOT NULL DEFAULT '{}',
    expires_at timestamptz,
    CONSTRAINT event_pkey PRIMARY KEY (event_id),
    CONSTRAINT event_purpose_check CHECK (purpose IN ('event', 'audit', 'agent_step')),
    CONSTRAINT event_kind_check CHECK (btrim(event_kind) <> '')
);
CREATE INDEX event_subject_idx ON agentq.event (subject, event_id);
CREATE INDEX event_expires_idx ON agentq.event (expires_at) WHERE expires_at IS NOT NULL;
COMMENT ON TABLE agentq.event IS 'What happened, in the order of event_id. Never changed; removed only when it has expired.';
COMMENT ON COLUMN agentq.event.event_id IS 'Time-ordered id.';
COMMENT ON COLUMN agentq.event.event_at IS 'When it happened.';
COMMENT ON COLUMN agentq.event.purpose IS 'event, audit or agent_step.';
COMMENT ON COLUMN agentq.event.event_kind IS 'What happened, such as executor.stale.';
COMMENT ON COLUMN agentq.event.subject IS 'What it happened to: the name of an executor, the id of a job.';
COMMENT ON COLUMN agentq.event.payload IS 'What else is to be known.';
COMMENT ON COLUMN agentq.event.expires_at IS 'When the engine may remove it; NULL: never.';

CREATE FUNCTION agentq.fn_event_keep() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.expires_at <= agentq.fn_clock_now() THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'events are never changed or removed before they expire'
        USING ERRCODE = 'restrict_violation', HINT = 'Write a new event that corrects the old one.';
END $$;
COMMENT ON FUNCTION agentq.fn_event_keep() IS 'Trigger: refuses to change an event, or to remove one that has not expired.';

CREATE TRIGGER event_keep BEFORE UPDATE OR DELETE ON agentq.event
    FOR EACH ROW EXECUTE FUNCTION agentq.fn_event_keep();
CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq.event
    FOR EACH STATEMENT EXECUTE FUNCTION agentq.fn_event_keep();
COMMENT ON TRIGGER event_keep ON agentq.event IS 'What happened stays as it was written.';
COMMENT ON TRIGGER event_keep_all ON agentq.event IS 'What happened stays as it was written.';

SELECT pg_catalog.pg_extension_config_dump('agentq.event', '');
