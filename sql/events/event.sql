-- What happened. Rows are added and never changed; when they have outlived their time, their whole
-- partition is dropped. By purpose first, because an audit is kept longer than the rest, then by time.
-- Partitions of days or months are made as time goes on, and belong to no extension; what has none
-- goes to the two rests, so that an event is never refused for want of a partition.
CREATE TABLE agentq.event (
    event_id       uuid NOT NULL,
    event_at       timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    purpose        text NOT NULL DEFAULT 'event',
    event_kind     text NOT NULL,
    subject        text NOT NULL,
    payload        jsonb NOT NULL DEFAULT '{}',
    source         text,
    tags           text[] NOT NULL DEFAULT '{}',
    dedupe_key     text,
    correlation_id text,
    trace_id       text,
    mission_id     uuid,
    xid            xid8 NOT NULL DEFAULT pg_catalog.pg_current_xact_id(),
    origin         text DEFAULT 'caller',
    actor          text DEFAULT session_user,
    target_type    text,
    target_id      text,
    command_id     uuid,
    agent_run_id   uuid,
    swarm_run_id   uuid,
    step_index     integer,
    tool_name      text,
    latency_ms     integer,
    token_usage    jsonb,
    cost_units     numeric,
    CONSTRAINT event_purpose_check CHECK (purpose IN ('event', 'audit', 'agent_step')),
    CONSTRAINT event_kind_check CHECK (btrim(event_kind) <> ''),
    CONSTRAINT event_origin_check CHECK (origin IN ('agentq', 'caller'))
) PARTITION BY LIST (purpose);
CREATE TABLE agentq_internal.event_usual PARTITION OF agentq.event FOR VALUES IN ('event', 'agent_step') PARTITION BY RANGE (event_at);
CREATE TABLE agentq_internal.event_audit PARTITION OF agentq.event FOR VALUES IN ('audit') PARTITION BY RANGE (event_at);
CREATE TABLE agentq_internal.event_usual_rest PARTITION OF agentq_internal.event_usual DEFAULT;
CREATE TABLE agentq_internal.event_audit_rest PARTITION OF agentq_internal.event_audit DEFAULT;
-- Each partition has its own indexes. Those of the whole table would be made with every partition
-- that a restored dump attaches, and then be in the way of the ones that the dump brings.
ALTER TABLE agentq_internal.event_usual_rest ADD CONSTRAINT event_usual_rest_pkey PRIMARY KEY (event_id);
ALTER TABLE agentq_internal.event_audit_rest ADD CONSTRAINT event_audit_rest_pkey PRIMARY KEY (event_id);
CREATE INDEX event_usual_rest_subject_idx ON agentq_internal.event_usual_rest (subject, event_id);
CREATE INDEX event_audit_rest_subject_idx ON agentq_internal.event_audit_rest (subject, event_id);
CREATE INDEX event_usual_rest_xid_idx ON agentq_internal.event_usual_rest (xid, event_id);
CREATE INDEX event_audit_rest_xid_idx ON agentq_internal.event_audit_rest (xid, event_id);
CREATE INDEX event_usual_rest_at_idx ON agentq_internal.event_usual_rest (event_at);
CREATE INDEX event_audit_rest_at_idx ON agentq_internal.event_audit_rest (event_at);
COMMENT ON TABLE agentq.event IS 'What happened. Never changed; whole partitions are dropped when their time is over. event_log has the order.';
COMMENT ON COLUMN agentq.event.event_id IS 'Time-ordered id.';
COMMENT ON COLUMN agentq.event.event_at IS 'When it happened.';
COMMENT ON COLUMN agentq.event.purpose IS 'event, audit or agent_step. How long an audit is kept is set apart from the others.';
COMMENT ON COLUMN agentq.event.event_kind IS 'What happened, such as executor.stale.';
COMMENT ON COLUMN agentq.event.subject IS 'What it happened to: the name of an executor, the id of a job.';
COMMENT ON COLUMN agentq.event.payload IS 'What else is to be known.';
COMMENT ON COLUMN agentq.event.source IS 'Where it comes from.';
COMMENT ON COLUMN agentq.event.tags IS 'Words to find it by.';
COMMENT ON COLUMN agentq.event.dedupe_key IS 'The key under which it was written once.';
COMMENT ON COLUMN agentq.event.correlation_id IS 'What it belongs to, across systems.';
COMMENT ON COLUMN agentq.event.trace_id IS 'The trace that it is part of.';
COMMENT ON COLUMN agentq.event.mission_id IS 'The mission that it is about.';
COMMENT ON COLUMN agentq.event.xid IS 'The transaction that wrote it; event_log is made by it.';
COMMENT ON COLUMN agentq.event.origin IS 'agentq, or caller: who says it. NULL: it was written before there was this column.';
COMMENT ON COLUMN agentq.event.actor IS 'The role that wrote it; of what agentq itself says, who caused it.';
COMMENT ON COLUMN agentq.event.target_type IS 'What kind of thing it happened to, such as job or mission.';
COMMENT ON COLUMN agentq.event.target_id IS 'The id of that thing.';
COMMENT ON COLUMN agentq.event.command_id IS 'The command that it is about.';
COMMENT ON COLUMN agentq.event.agent_run_id IS 'The run of an agent that it is about.';
COMMENT ON COLUMN agentq.event.swarm_run_id IS 'The run of a swarm that it is about.';
COMMENT ON COLUMN agentq.event.step_index IS 'Of a step of an agent: its number in the run.';
COMMENT ON COLUMN agentq.event.tool_name IS 'Of a step of an agent: the tool.';
COMMENT ON COLUMN agentq.event.latency_ms IS 'Of a step of an agent: how long it took, in milliseconds.';
COMMENT ON COLUMN agentq.event.token_usage IS 'Of a step of an agent: tokens by kind.';
COMMENT ON COLUMN agentq.event.cost_units IS 'Of a step of an agent: what it cost.';
COMMENT ON TABLE agentq_internal.event_usual IS 'Events and steps of agents.';
COMMENT ON TABLE agentq_internal.event_audit IS 'Audits.';
COMMENT ON TABLE agentq_internal.event_usual_rest IS 'Events and steps of agents of a time that has no partition.';
COMMENT ON TABLE agentq_internal.event_audit_rest IS 'Audits of a time that has no partition.';

-- Until when events may be dropped: NULL, never.
CREATE FUNCTION agentq_internal.fn_event_horizon(p_class text) RETURNS timestamptz LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT agentq.fn_clock_now() - make_interval(days => nullif(agentq.fn_config_get(
        CASE p_class WHEN 'audit' THEN 'events.audit_retention_days' ELSE 'events.retention_days' END)::int, 0))
$$;
COMMENT ON FUNCTION agentq_internal.fn_event_horizon(text) IS 'Events of this class, usual or audit, that are older have outlived their time; NULL: none ever does.';

CREATE FUNCTION agentq_internal.fn_event_keep() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_is_over boolean;
BEGIN
    -- A rest cannot be dropped. It is emptied when all of it has outlived its time.
    IF TG_OP = 'TRUNCATE' AND TG_TABLE_NAME IN ('event_usual_rest', 'event_audit_rest') THEN
        EXECUTE format('SELECT coalesce(max(event_at) < agentq_internal.fn_event_horizon(%L), false) FROM agentq_internal.%I',
            CASE TG_TABLE_NAME WHEN 'event_audit_rest' THEN 'audit' ELSE 'usual' END, TG_TABLE_NAME) INTO v_is_over;
        IF v_is_over THEN
            RETURN NULL;
        END IF;
    END IF;
    RAISE EXCEPTION 'events are never changed or removed'
        USING ERRCODE = 'restrict_violation',
              HINT = 'Write a new event that corrects the old one. Whole partitions go when their time is over: see events.retention_days.';
END $$;
COMMENT ON FUNCTION agentq_internal.fn_event_keep() IS 'Trigger: refuses to change or remove what is in the log.';

CREATE TRIGGER event_keep BEFORE UPDATE OR DELETE ON agentq.event
    FOR EACH ROW EXECUTE FUNCTION agentq_internal.fn_event_keep();
CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq.event
    FOR EACH STATEMENT EXECUTE FUNCTION agentq_internal.fn_event_keep();
CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq_internal.event_usual
    FOR EACH STATEMENT EXECUTE FUNCTION agentq_internal.fn_event_keep();
CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq_internal.event_audit
    FOR EACH STATEMENT EXECUTE FUNCTION agentq_internal.fn_event_keep();
CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq_internal.event_usual_rest
    FOR EACH STATEMENT EXECUTE FUNCTION agentq_internal.fn_event_keep();
CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq_internal.event_audit_rest
    FOR EACH STATEMENT EXECUTE FUNCTION agentq_internal.fn_event_keep();

-- Keys under which an event is written once. They go with their events.
CREATE TABLE agentq_internal.event_key (
    dedupe_key text NOT NULL,
    event_id   uuid NOT NULL,
    purpose    text NOT NULL,
    event_at   timestamptz NOT NULL,
    CONSTRAINT event_key_pkey PRIMARY KEY (dedupe_key)
);
CREATE INDEX event_key_at_idx ON agentq_internal.event_key (purpose, event_at);
COMMENT ON TABLE agentq_internal.event_key IS 'Keys of events that are written once. They go with their events.';
COMMENT ON COLUMN agentq_internal.event_key.dedupe_key IS 'The key.';
COMMENT ON COLUMN agentq_internal.event_key.event_id IS 'The event that has it.';
COMMENT ON COLUMN agentq_internal.event_key.purpose IS 'Its purpose.';
COMMENT ON COLUMN agentq_internal.event_key.event_at IS 'When it happened.';

SELECT pg_catalog.pg_extension_config_dump('agentq_internal.event_usual_rest', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.event_audit_rest', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.event_key', '');
