-- 0.7.0: durable steps, missions, effects, a log of events, and the ops loop.

ALTER DOMAIN agentq.job_outcome DROP CONSTRAINT job_outcome_check;
ALTER DOMAIN agentq.job_outcome ADD CONSTRAINT job_outcome_check CHECK (VALUE IN ('succeeded', 'failed', 'lease_expired', 'released', 'snoozed',
    'cancelled', 'dead_letter', 'slept', 'waiting'));
ALTER TABLE agentq.job ADD COLUMN on_end text, ADD COLUMN waits_for jsonb;
COMMENT ON COLUMN agentq.job.on_end IS 'Who in the extension is told when it has finished, a colon, and what about; NULL: nobody.';
COMMENT ON COLUMN agentq.job.waits_for IS 'What it rests for, if not for time alone, as fn_job_explain tells it. It holds while scheduled_at is what "at" says.';
COMMENT ON COLUMN agentq.job_attempt.outcome IS 'succeeded, failed, lease_expired, released, snoozed, slept, waiting, cancelled or dead_letter; NULL: it goes on.';

CREATE FUNCTION agentq."fn_action_begin"(
	"p_key" TEXT,
	"p_type" TEXT,
	"p_inputs" jsonb DEFAULT '{}',
	"p_holder" TEXT DEFAULT NULL,
	"p_options" jsonb DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_action_begin_wrapper';
CREATE FUNCTION agentq."fn_action_fail"(
	"p_key" TEXT,
	"p_holder" TEXT DEFAULT NULL,
	"p_error" TEXT DEFAULT NULL,
	"p_token" uuid DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_action_fail_wrapper';
CREATE FUNCTION agentq."fn_action_finish"(
	"p_key" TEXT,
	"p_holder" TEXT DEFAULT NULL,
	"p_result" jsonb DEFAULT NULL,
	"p_token" uuid DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_action_finish_wrapper';
CREATE FUNCTION agentq."fn_action_key"(
	"p_job_id" uuid,
	"p_step" TEXT,
	"p_inputs" jsonb DEFAULT '{}'
) RETURNS TEXT
IMMUTABLE PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_action_key_wrapper';
CREATE FUNCTION agentq."fn_checkpoint_load"(
	"p_job_id" uuid
) RETURNS jsonb
STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_checkpoint_load_wrapper';
CREATE FUNCTION agentq."fn_checkpoint_save"(
	"p_job_id" uuid,
	"p_lease_owner" TEXT,
	"p_checkpoint" jsonb,
	"p_lease_token" uuid DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_checkpoint_save_wrapper';
CREATE FUNCTION agentq."fn_effect_begin"(
	"p_effect_id" uuid,
	"p_lease_owner" TEXT,
	"p_lease_token" uuid DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_effect_begin_wrapper';
CREATE FUNCTION agentq."fn_effect_compensate"(
	"p_job_id" uuid DEFAULT NULL,
	"p_mission_id" uuid DEFAULT NULL,
	"p_reason" TEXT DEFAULT NULL,
	"p_options" jsonb DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_effect_compensate_wrapper';
CREATE FUNCTION agentq."fn_effect_compensation_remove"(
	"p_compensation" TEXT
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_effect_compensation_remove_wrapper';
CREATE FUNCTION agentq."fn_effect_compensation_set"(
	"p_compensation" TEXT,
	"p_definition" jsonb
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_effect_compensation_set_wrapper';
CREATE FUNCTION agentq."fn_effect_fail"(
	"p_effect_id" uuid,
	"p_lease_owner" TEXT,
	"p_error" TEXT,
	"p_lease_token" uuid DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_effect_fail_wrapper';
CREATE FUNCTION agentq."fn_effect_finish"(
	"p_effect_id" uuid,
	"p_lease_owner" TEXT,
	"p_result" jsonb DEFAULT NULL,
	"p_lease_token" uuid DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_effect_finish_wrapper';
CREATE FUNCTION agentq."fn_effect_get"(
	"p_effect_id" uuid
) RETURNS jsonb
STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_effect_get_wrapper';
CREATE FUNCTION agentq."fn_effect_manifest_check"(
	"p_manifest" jsonb DEFAULT NULL,
	"p_replace" bool DEFAULT false
) RETURNS jsonb
STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_effect_manifest_check_wrapper';
CREATE FUNCTION agentq."fn_effect_manifest_set"(
	"p_manifest" jsonb,
	"p_replace" bool DEFAULT false,
	"p_note" TEXT DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_effect_manifest_set_wrapper';
CREATE FUNCTION agentq."fn_effect_operation_remove"(
	"p_operation" TEXT
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_effect_operation_remove_wrapper';
CREATE FUNCTION agentq."fn_effect_operation_set"(
	"p_operation" TEXT,
	"p_definition" jsonb
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_effect_operation_set_wrapper';
CREATE FUNCTION agentq."fn_effect_plan"(
	"p_job_id" uuid,
	"p_lease_owner" TEXT,
	"p_effects" jsonb,
	"p_lease_token" uuid DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_effect_plan_wrapper';
CREATE FUNCTION agentq."fn_effect_reconcile"(
	"p_effect_id" uuid,
	"p_verdict" TEXT,
	"p_result" jsonb DEFAULT NULL,
	"p_note" TEXT DEFAULT NULL,
	"p_by" TEXT DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_effect_reconcile_wrapper';
CREATE FUNCTION agentq."fn_event_emit"(
	"p_kind" TEXT,
	"p_subject" TEXT,
	"p_payload" jsonb DEFAULT '{}',
	"p_options" jsonb DEFAULT '{}'
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_event_emit_wrapper';
CREATE FUNCTION agentq."fn_event_read"(
	"p_after" bigint DEFAULT 0,
	"p_limit" INT DEFAULT 100,
	"p_wait" interval DEFAULT NULL,
	"p_options" jsonb DEFAULT '{}'
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_event_read_wrapper';
CREATE FUNCTION agentq."fn_event_verify"(
	"p_from" bigint DEFAULT NULL,
	"p_to" bigint DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_event_verify_wrapper';
CREATE FUNCTION agentq."fn_job_sleep"(
	"p_job_id" uuid,
	"p_lease_owner" TEXT,
	"p_until" timestamp with time zone DEFAULT NULL,
	"p_for" interval DEFAULT NULL,
	"p_name" TEXT DEFAULT NULL,
	"p_lease_token" uuid DEFAULT NULL,
	"p_options" jsonb DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_job_sleep_wrapper';
CREATE FUNCTION agentq."fn_mission_cancel"(
	"p_mission" uuid,
	"p_reason" TEXT DEFAULT NULL,
	"p_mode" TEXT DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_mission_cancel_wrapper';
CREATE FUNCTION agentq."fn_mission_explain"(
	"p_mission" uuid
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_mission_explain_wrapper';
CREATE FUNCTION agentq."fn_mission_fork"(
	"p_mission" uuid,
	"p_from_step" TEXT,
	"p_options" jsonb DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_mission_fork_wrapper';
CREATE FUNCTION agentq."fn_mission_get"(
	"p_mission" uuid
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_mission_get_wrapper';
CREATE FUNCTION agentq."fn_mission_graph"(
	"p_mission" uuid,
	"p_format" TEXT DEFAULT 'mermaid'
) RETURNS TEXT
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_mission_graph_wrapper';
CREATE FUNCTION agentq."fn_mission_pause"(
	"p_mission" uuid,
	"p_reason" TEXT DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_mission_pause_wrapper';
CREATE FUNCTION agentq."fn_mission_resume"(
	"p_mission" uuid
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_mission_resume_wrapper';
CREATE FUNCTION agentq."fn_mission_start"(
	"p_template" jsonb,
	"p_options" jsonb DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_mission_start_wrapper';
CREATE FUNCTION agentq."fn_ops_tick"() RETURNS jsonb
STRICT SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_ops_tick_wrapper';
CREATE FUNCTION agentq."fn_policy_accepts"(
	"p_key" TEXT,
	"p_value" jsonb
) RETURNS bool
IMMUTABLE STRICT PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_policy_accepts_wrapper';
CREATE FUNCTION agentq."fn_policy_get"(
	"p_key" TEXT,
	"p_version" INT DEFAULT NULL
) RETURNS jsonb
STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_policy_get_wrapper';
CREATE FUNCTION agentq."fn_policy_history"(
	"p_key" TEXT,
	"p_limit" INT DEFAULT 100
) RETURNS jsonb
STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_policy_history_wrapper';
CREATE FUNCTION agentq."fn_policy_set"(
	"p_key" TEXT,
	"p_value" jsonb,
	"p_reason" TEXT DEFAULT NULL
) RETURNS jsonb
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_policy_set_wrapper';
CREATE FUNCTION agentq."fn_proposal_approve"(
	"p_proposal_id" uuid,
	"p_by" TEXT DEFAULT NULL,
	"p_reason" TEXT DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_proposal_approve_wrapper';
CREATE FUNCTION agentq."fn_proposal_create"(
	"p_dedupe_key" TEXT,
	"p_source" TEXT,
	"p_template" jsonb,
	"p_options" jsonb DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_proposal_create_wrapper';
CREATE FUNCTION agentq."fn_proposal_gate"(
	"p_template" jsonb,
	"p_source" TEXT DEFAULT 'api'
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_proposal_gate_wrapper';
CREATE FUNCTION agentq."fn_proposal_get"(
	"p_proposal_id" uuid
) RETURNS jsonb
STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_proposal_get_wrapper';
CREATE FUNCTION agentq."fn_proposal_is_auto_approvable"(
	"p_template" jsonb,
	"p_source" TEXT DEFAULT 'api'
) RETURNS bool
STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_proposal_is_auto_approvable_wrapper';
CREATE FUNCTION agentq."fn_proposal_reject"(
	"p_proposal_id" uuid,
	"p_reason" TEXT,
	"p_by" TEXT DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_proposal_reject_wrapper';
CREATE FUNCTION agentq."fn_signal_send"(
	"p_name" TEXT,
	"p_key" TEXT DEFAULT '',
	"p_payload" jsonb DEFAULT '{}',
	"p_options" jsonb DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_signal_send_wrapper';
CREATE FUNCTION agentq."fn_signal_wait"(
	"p_job_id" uuid,
	"p_lease_owner" TEXT,
	"p_name" TEXT,
	"p_key" TEXT DEFAULT '',
	"p_timeout" interval DEFAULT NULL,
	"p_lease_token" uuid DEFAULT NULL,
	"p_options" jsonb DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_signal_wait_wrapper';
CREATE FUNCTION agentq."fn_step_begin"(
	"p_job_id" uuid,
	"p_lease_owner" TEXT,
	"p_name" TEXT,
	"p_inputs" jsonb DEFAULT '{}',
	"p_lease_token" uuid DEFAULT NULL,
	"p_options" jsonb DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_step_begin_wrapper';
CREATE FUNCTION agentq."fn_step_complete"(
	"p_job_id" uuid,
	"p_lease_owner" TEXT,
	"p_name" TEXT,
	"p_result" jsonb DEFAULT NULL,
	"p_lease_token" uuid DEFAULT NULL,
	"p_options" jsonb DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_step_complete_wrapper';
CREATE FUNCTION agentq."fn_step_fail"(
	"p_job_id" uuid,
	"p_lease_owner" TEXT,
	"p_name" TEXT,
	"p_error" TEXT DEFAULT NULL,
	"p_lease_token" uuid DEFAULT NULL,
	"p_options" jsonb DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_step_fail_wrapper';
CREATE FUNCTION agentq."fn_step_resolve"(
	"p_job_id" uuid,
	"p_lease_owner" TEXT,
	"p_name" TEXT,
	"p_verdict" TEXT,
	"p_result" jsonb DEFAULT NULL,
	"p_note" TEXT DEFAULT NULL,
	"p_lease_token" uuid DEFAULT NULL,
	"p_options" jsonb DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_step_resolve_wrapper';
CREATE FUNCTION agentq."fn_template_step_kinds"(
	"p_template" jsonb
) RETURNS TEXT[]
IMMUTABLE STRICT PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_template_step_kinds_wrapper';

-- Events move to a table in partitions. They count as written by this transaction, so that the sealer finds them.
ALTER TABLE agentq.event RENAME TO event_former;
ALTER INDEX agentq.event_pkey RENAME TO event_former_pkey;
ALTER INDEX agentq.event_subject_idx RENAME TO event_former_subject_idx;
ALTER INDEX agentq.event_expires_idx RENAME TO event_former_expires_idx;

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
    correlation_id uuid,
    trace_id       text,
    mission_id     uuid,
    xid            xid8 NOT NULL DEFAULT pg_catalog.pg_current_xact_id(),
    CONSTRAINT event_purpose_check CHECK (purpose IN ('event', 'audit', 'agent_step')),
    CONSTRAINT event_kind_check CHECK (btrim(event_kind) <> '')
) PARTITION BY LIST (purpose);
CREATE TABLE agentq.event_usual PARTITION OF agentq.event FOR VALUES IN ('event', 'agent_step') PARTITION BY RANGE (event_at);
CREATE TABLE agentq.event_audit PARTITION OF agentq.event FOR VALUES IN ('audit') PARTITION BY RANGE (event_at);
CREATE TABLE agentq.event_usual_rest PARTITION OF agentq.event_usual DEFAULT;
CREATE TABLE agentq.event_audit_rest PARTITION OF agentq.event_audit DEFAULT;
-- Each partition has its indexes of its own. Those of the whole table would be made with every partition
-- that a restored dump attaches, and then be in the way of the ones that the dump brings.
ALTER TABLE agentq.event_usual_rest ADD CONSTRAINT event_usual_rest_pkey PRIMARY KEY (event_id);
ALTER TABLE agentq.event_audit_rest ADD CONSTRAINT event_audit_rest_pkey PRIMARY KEY (event_id);
CREATE INDEX event_usual_rest_subject_idx ON agentq.event_usual_rest (subject, event_id);
CREATE INDEX event_audit_rest_subject_idx ON agentq.event_audit_rest (subject, event_id);
CREATE INDEX event_usual_rest_xid_idx ON agentq.event_usual_rest (xid, event_id);
CREATE INDEX event_audit_rest_xid_idx ON agentq.event_audit_rest (xid, event_id);
CREATE INDEX event_usual_rest_at_idx ON agentq.event_usual_rest (event_at);
CREATE INDEX event_audit_rest_at_idx ON agentq.event_audit_rest (event_at);
COMMENT ON TABLE agentq.event IS 'What happened. Never changed; whole partitions are dropped when their time is over. event_log has the order.';
COMMENT ON COLUMN agentq.event.event_id IS 'Time-ordered id.';
COMMENT ON COLUMN agentq.event.event_at IS 'When it happened.';
COMMENT ON COLUMN agentq.event.purpose IS 'event, audit or agent_step. An audit is kept for a time of its own.';
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
COMMENT ON TABLE agentq.event_usual IS 'Events and steps of agents.';
COMMENT ON TABLE agentq.event_audit IS 'Audits.';
COMMENT ON TABLE agentq.event_usual_rest IS 'Events and steps of agents of a time that has no partition.';
COMMENT ON TABLE agentq.event_audit_rest IS 'Audits of a time that has no partition.';

-- Until when events may be dropped: NULL, never.
CREATE FUNCTION agentq.fn_event_horizon(p_class text) RETURNS timestamptz LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT agentq.fn_clock_now() - make_interval(days => nullif(agentq.fn_config_get(
        CASE p_class WHEN 'audit' THEN 'events.audit_retention_days' ELSE 'events.retention_days' END)::int, 0))
$$;
COMMENT ON FUNCTION agentq.fn_event_horizon(text) IS 'Events of this class, usual or audit, that are older have outlived their time; NULL: none ever does.';

CREATE OR REPLACE FUNCTION agentq.fn_event_keep() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_is_over boolean;
BEGIN
    -- A rest cannot be dropped. It is emptied when all of it has outlived its time.
    IF TG_OP = 'TRUNCATE' AND TG_TABLE_NAME IN ('event_usual_rest', 'event_audit_rest') THEN
        EXECUTE format('SELECT coalesce(max(event_at) < agentq.fn_event_horizon(%L), false) FROM agentq.%I',
            CASE TG_TABLE_NAME WHEN 'event_audit_rest' THEN 'audit' ELSE 'usual' END, TG_TABLE_NAME) INTO v_is_over;
        IF v_is_over THEN
            RETURN NULL;
        END IF;
    END IF;
    RAISE EXCEPTION 'events are never changed or removed'
        USING ERRCODE = 'restrict_violation',
              HINT = 'Write a new event that corrects the old one. Whole partitions go when their time is over: see events.retention_days.';
END $$;
COMMENT ON FUNCTION agentq.fn_event_keep() IS 'Trigger: refuses to change or remove what is in the log.';

CREATE TRIGGER event_keep BEFORE UPDATE OR DELETE ON agentq.event
    FOR EACH ROW EXECUTE FUNCTION agentq.fn_event_keep();
CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq.event
    FOR EACH STATEMENT EXECUTE FUNCTION agentq.fn_event_keep();
CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq.event_usual
    FOR EACH STATEMENT EXECUTE FUNCTION agentq.fn_event_keep();
CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq.event_audit
    FOR EACH STATEMENT EXECUTE FUNCTION agentq.fn_event_keep();
CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq.event_usual_rest
    FOR EACH STATEMENT EXECUTE FUNCTION agentq.fn_event_keep();
CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq.event_audit_rest
    FOR EACH STATEMENT EXECUTE FUNCTION agentq.fn_event_keep();

-- Keys under which an event is written once. They go with their events.
CREATE TABLE agentq.event_key (
    dedupe_key text NOT NULL,
    event_id   uuid NOT NULL,
    purpose    text NOT NULL,
    event_at   timestamptz NOT NULL,
    CONSTRAINT event_key_pkey PRIMARY KEY (dedupe_key)
);
CREATE INDEX event_key_at_idx ON agentq.event_key (purpose, event_at);
COMMENT ON TABLE agentq.event_key IS 'Keys of events that are written once. They go with their events.';
COMMENT ON COLUMN agentq.event_key.dedupe_key IS 'The key.';
COMMENT ON COLUMN agentq.event_key.event_id IS 'The event that has it.';
COMMENT ON COLUMN agentq.event_key.purpose IS 'Its purpose.';
COMMENT ON COLUMN agentq.event_key.event_at IS 'When it happened.';

SELECT pg_catalog.pg_extension_config_dump('agentq.event_usual_rest', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.event_audit_rest', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.event_key', '');

-- The log: the place of every committed event in one sequence without gaps, and the chain of hashes
-- over it. One sealer writes it. Parts of a million places are made and dropped as time goes on.
CREATE TABLE agentq.event_log (
    seq      bigint NOT NULL,
    purpose  text NOT NULL,
    place    bigint NOT NULL,
    event_id uuid NOT NULL,
    event_at timestamptz NOT NULL,
    digest   bytea NOT NULL,
    hash     bytea NOT NULL,
    CONSTRAINT event_log_place_check CHECK (seq > 0 AND place > 0 AND place <= seq),
    CONSTRAINT event_log_hash_check CHECK (octet_length(digest) = 32 AND octet_length(hash) = 32)
) PARTITION BY LIST (purpose);
CREATE TABLE agentq.event_log_usual PARTITION OF agentq.event_log FOR VALUES IN ('event', 'agent_step') PARTITION BY RANGE (seq);
CREATE TABLE agentq.event_log_audit PARTITION OF agentq.event_log FOR VALUES IN ('audit') PARTITION BY RANGE (seq);
COMMENT ON TABLE agentq.event_log IS 'The order of events: every committed event has one place, and no place is left out or given later. Read with fn_event_read, check with fn_event_verify.';
COMMENT ON COLUMN agentq.event_log.seq IS 'Its place among all events.';
COMMENT ON COLUMN agentq.event_log.purpose IS 'The purpose of the event.';
COMMENT ON COLUMN agentq.event_log.place IS 'Its place in its chain: audits have one, all others have the other.';
COMMENT ON COLUMN agentq.event_log.event_id IS 'The event.';
COMMENT ON COLUMN agentq.event_log.event_at IS 'When it happened.';
COMMENT ON COLUMN agentq.event_log.digest IS 'SHA-256 of the event.';
COMMENT ON COLUMN agentq.event_log.hash IS 'SHA-256 of the hash before it in the chain and of this row.';
COMMENT ON TABLE agentq.event_log_usual IS 'The places of events and steps of agents.';
COMMENT ON TABLE agentq.event_log_audit IS 'The places of audits.';

CREATE TRIGGER event_log_keep BEFORE UPDATE OR DELETE ON agentq.event_log
    FOR EACH ROW EXECUTE FUNCTION agentq.fn_event_keep();
CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq.event_log
    FOR EACH STATEMENT EXECUTE FUNCTION agentq.fn_event_keep();
CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq.event_log_usual
    FOR EACH STATEMENT EXECUTE FUNCTION agentq.fn_event_keep();
CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq.event_log_audit
    FOR EACH STATEMENT EXECUTE FUNCTION agentq.fn_event_keep();

-- The partitions that come with the extension say what the columns of their parents are.
DO $$
DECLARE
    v_column record;
    v_trigger record;
BEGIN
    FOR v_column IN
        SELECT p.part, a.attname, d.description
        FROM (VALUES ('event', 'event_usual'), ('event', 'event_audit'), ('event', 'event_usual_rest'), ('event', 'event_audit_rest'),
                     ('event_log', 'event_log_usual'), ('event_log', 'event_log_audit')) AS p(whole, part)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = ('agentq.' || p.whole)::regclass AND a.attnum > 0 AND NOT a.attisdropped
        JOIN pg_catalog.pg_description d ON d.objoid = a.attrelid AND d.classoid = 'pg_class'::regclass AND d.objsubid = a.attnum
    LOOP
        EXECUTE format('COMMENT ON COLUMN agentq.%I.%I IS %L', v_column.part, v_column.attname, v_column.description);
    END LOOP;
    FOR v_trigger IN
        SELECT tgrelid::regclass AS part, tgname FROM pg_catalog.pg_trigger
        WHERE tgfoid = 'agentq.fn_event_keep'::regproc
    LOOP
        EXECUTE format('COMMENT ON TRIGGER %I ON %s IS %L', v_trigger.tgname, v_trigger.part, 'What happened stays as it was written.');
    END LOOP;
END $$;

-- Where each chain stands: its last link, and what the first link that is still there follows.
CREATE TABLE agentq.event_chain (
    chain          text NOT NULL,
    first_place    bigint NOT NULL DEFAULT 1,
    first_hash     bytea,
    last_seq       bigint NOT NULL DEFAULT 0,
    last_place     bigint NOT NULL DEFAULT 0,
    last_hash      bytea,
    dropped_before timestamptz NOT NULL DEFAULT '-infinity',
    CONSTRAINT event_chain_pkey PRIMARY KEY (chain),
    CONSTRAINT event_chain_chain_check CHECK (chain IN ('usual', 'audit'))
) WITH (fillfactor = 50);
COMMENT ON TABLE agentq.event_chain IS 'The two chains of hashes over event_log: where they begin, and where they end.';
COMMENT ON COLUMN agentq.event_chain.chain IS 'usual or audit.';
COMMENT ON COLUMN agentq.event_chain.first_place IS 'Its first place that has not been dropped.';
COMMENT ON COLUMN agentq.event_chain.first_hash IS 'The hash before that place; NULL: it is the first of all.';
COMMENT ON COLUMN agentq.event_chain.last_seq IS 'The last place among all events; 0: none yet.';
COMMENT ON COLUMN agentq.event_chain.last_place IS 'Its last place.';
COMMENT ON COLUMN agentq.event_chain.last_hash IS 'The hash of that place.';
COMMENT ON COLUMN agentq.event_chain.dropped_before IS 'Events older than this may have been dropped, their time being over.';

-- How far the sealer has come. Everything that is visible in "sealed" has its place. "target" is what it
-- works on now, and "at_xid" and "at_event" are how far it has come in that.
CREATE TABLE agentq.event_seal (
    one        boolean NOT NULL DEFAULT true,
    last_seq   bigint NOT NULL DEFAULT 0,
    sealed     pg_snapshot,
    target     pg_snapshot,
    adopting   boolean NOT NULL DEFAULT false,
    at_xid     xid8 NOT NULL DEFAULT '0',
    at_event   uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    foreign_to xid8 NOT NULL DEFAULT '0',
    origin     text NOT NULL DEFAULT '',
    updated_at timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    CONSTRAINT event_seal_pkey PRIMARY KEY (one),
    CONSTRAINT event_seal_one_check CHECK (one)
) WITH (fillfactor = 50);
COMMENT ON TABLE agentq.event_seal IS 'How far event_log has come. One row.';
COMMENT ON COLUMN agentq.event_seal.one IS 'There is one row.';
COMMENT ON COLUMN agentq.event_seal.last_seq IS 'The last place that was given.';
COMMENT ON COLUMN agentq.event_seal.sealed IS 'All events of transactions that had committed by then have their place.';
COMMENT ON COLUMN agentq.event_seal.target IS 'What is being sealed now, if it takes several turns.';
COMMENT ON COLUMN agentq.event_seal.adopting IS 'Whether all events are being looked through for those without a place, as after a restore.';
COMMENT ON COLUMN agentq.event_seal.at_xid IS 'How far that has come: the transaction.';
COMMENT ON COLUMN agentq.event_seal.at_event IS 'How far that has come: the event.';
COMMENT ON COLUMN agentq.event_seal.foreign_to IS 'Up to here the numbers of transactions may be those of another server.';
COMMENT ON COLUMN agentq.event_seal.origin IS 'The server and database whose transactions are meant.';
COMMENT ON COLUMN agentq.event_seal.updated_at IS 'When it was last written.';

CREATE VIEW agentq.v_event_partition AS
SELECT CASE WHEN s.relname LIKE 'event\_log%' THEN 'log' ELSE 'event' END AS holds,
       CASE WHEN s.relname LIKE '%audit' THEN 'audit' ELSE 'usual' END AS class,
       c.relname AS partition,
       (b.bounds)[1] AS lower, (b.bounds)[2] AS upper,
       pg_catalog.pg_total_relation_size(c.oid) AS bytes
FROM pg_catalog.pg_class s
JOIN pg_catalog.pg_inherits i ON i.inhparent = s.oid
JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
CROSS JOIN LATERAL (SELECT regexp_match(pg_catalog.pg_get_expr(c.relpartbound, c.oid), 'FROM \(''([^'']+)''\) TO \(''([^'']+)''\)') AS bounds) b
WHERE s.oid IN ('agentq.event_usual'::regclass, 'agentq.event_audit'::regclass,
                'agentq.event_log_usual'::regclass, 'agentq.event_log_audit'::regclass);
COMMENT ON VIEW agentq.v_event_partition IS 'The partitions of events and of their log.';
COMMENT ON COLUMN agentq.v_event_partition.holds IS 'event or log.';
COMMENT ON COLUMN agentq.v_event_partition.class IS 'audit, or usual for all else.';
COMMENT ON COLUMN agentq.v_event_partition.partition IS 'Its name.';
COMMENT ON COLUMN agentq.v_event_partition.lower IS 'Its first moment, or its first place in the log; NULL: it holds what has no partition.';
COMMENT ON COLUMN agentq.v_event_partition.upper IS 'The moment, or place, after its last one.';
COMMENT ON COLUMN agentq.v_event_partition.bytes IS 'Its size, with indexes.';

-- Makes a partition. It is attached, which lets events be written and read meanwhile; a partition "of"
-- would wait for every reader.
CREATE FUNCTION agentq.fn_event_partition_make(p_whole text, p_name text, p_from text, p_to text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_owner name := (SELECT relowner::regrole::text FROM pg_class WHERE oid = 'agentq.event'::regclass);
BEGIN
    EXECUTE format('CREATE TABLE agentq.%I (LIKE agentq.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', p_name, p_whole);
    IF p_whole LIKE 'event\_log%' THEN
        EXECUTE format('ALTER TABLE agentq.%I ADD CONSTRAINT %I PRIMARY KEY (seq)', p_name, p_name || '_pkey');
        EXECUTE format('ALTER TABLE agentq.%I ADD CONSTRAINT %I UNIQUE (event_id)', p_name, p_name || '_event_key');
    ELSE
        EXECUTE format('ALTER TABLE agentq.%I ADD CONSTRAINT %I PRIMARY KEY (event_id)', p_name, p_name || '_pkey');
        EXECUTE format('CREATE INDEX %I ON agentq.%I (subject, event_id)', p_name || '_subject_idx', p_name);
        EXECUTE format('CREATE INDEX %I ON agentq.%I (xid, event_id)', p_name || '_xid_idx', p_name);
    END IF;
    EXECUTE format('COMMENT ON TABLE agentq.%I IS %L', p_name, format('Of %s, from %s to %s.', p_whole, p_from, p_to));
    EXECUTE format('CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq.%I
        FOR EACH STATEMENT EXECUTE FUNCTION agentq.fn_event_keep()', p_name);
    EXECUTE format('REVOKE ALL ON agentq.%I FROM PUBLIC', p_name);
    -- The engine is nobody's role: its tables belong to whoever has the others.
    EXECUTE format('ALTER TABLE agentq.%I OWNER TO %s', p_name, v_owner);
    EXECUTE format('ALTER TABLE agentq.%I ATTACH PARTITION agentq.%I FOR VALUES FROM (%L) TO (%L)', p_whole, p_name, p_from, p_to);
END $$;
COMMENT ON FUNCTION agentq.fn_event_partition_make(text, text, text, text) IS 'Makes a partition of events, or of their log.';

CREATE FUNCTION agentq.fn_event_partition_add(p_class text, p_from timestamptz, p_to timestamptz) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' SET "TimeZone" = 'UTC' AS $$
DECLARE
    v_taken boolean;
BEGIN
    -- What lies in the rest stays there: the rest holds that time until it is over.
    EXECUTE format('SELECT EXISTS (SELECT FROM agentq.%I WHERE event_at >= $1 AND event_at < $2)', 'event_' || p_class || '_rest')
    INTO v_taken USING p_from, p_to;
    IF v_taken THEN
        RETURN false;
    END IF;
    PERFORM agentq.fn_event_partition_make('event_' || p_class,
        format('event_%s_%s', p_class, to_char(p_from, 'YYYYMMDD')), p_from::text, p_to::text);
    RETURN true;
END $$;
COMMENT ON FUNCTION agentq.fn_event_partition_add(text, timestamptz, timestamptz) IS 'Makes the partition of a time, unless events of that time lie in the rest.';

CREATE FUNCTION agentq.fn_event_log_add(p_class text, p_part bigint, p_size bigint) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF to_regclass(format('agentq.event_log_%s_%s', p_class, p_part)) IS NULL THEN
        PERFORM agentq.fn_event_partition_make('event_log_' || p_class, format('event_log_%s_%s', p_class, p_part),
            (p_part * p_size)::text, ((p_part + 1) * p_size)::text);
    END IF;
END $$;
COMMENT ON FUNCTION agentq.fn_event_log_add(text, bigint, bigint) IS 'Makes a part of the log, unless it is there.';

-- Drops a partition of events that have outlived their time, and says so in the log.
CREATE FUNCTION agentq.fn_event_partition_drop(p_class text, p_name text, p_upper timestamptz) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $$
BEGIN
    INSERT INTO agentq.event_chain AS c (chain, dropped_before) VALUES (p_class, p_upper)
    ON CONFLICT (chain) DO UPDATE SET dropped_before = greatest(c.dropped_before, excluded.dropped_before);
    IF p_name LIKE '%\_rest' THEN
        EXECUTE format('TRUNCATE agentq.%I', p_name);
    ELSE
        EXECUTE format('DROP TABLE agentq.%I', p_name);
    END IF;
END $$;
COMMENT ON FUNCTION agentq.fn_event_partition_drop(text, text, timestamptz) IS 'Drops a partition, or empties a rest, whose events have outlived their time.';

-- Drops the oldest part of a chain, if all its events have outlived their time and are gone: an event that
-- is there without its place would get another one after a restore.
CREATE FUNCTION agentq.fn_event_log_drop(p_class text, p_horizon timestamptz) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $$
DECLARE
    v_name text;
    v_last record;
    v_is_needed boolean;
    v_horizon timestamptz;
BEGIN
    EXECUTE format('SELECT min(event_at) FROM agentq.%I', 'event_' || p_class || '_rest') INTO v_horizon;
    SELECT least(p_horizon, v_horizon, min(CASE WHEN v.holds = 'event' THEN v.lower::timestamptz END)) INTO v_horizon
    FROM agentq.v_event_partition v WHERE v.class = p_class;
    SELECT v.partition INTO v_name FROM agentq.v_event_partition v JOIN agentq.event_chain c ON c.chain = v.class
    WHERE v.class = p_class AND CASE WHEN v.holds = 'log' THEN v.upper::bigint END <= c.last_seq
    ORDER BY CASE WHEN v.holds = 'log' THEN v.lower::bigint END LIMIT 1;
    IF v_name IS NULL THEN
        RETURN NULL;
    END IF;
    EXECUTE format('SELECT place, hash, event_at FROM agentq.%I ORDER BY seq DESC LIMIT 1', v_name) INTO v_last;
    IF v_last.event_at >= v_horizon THEN
        RETURN NULL;
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM agentq.%I WHERE event_at >= $1)', v_name) INTO v_is_needed USING v_horizon;
    IF v_is_needed THEN
        RETURN NULL;
    END IF;
    UPDATE agentq.event_chain
    SET first_place = coalesce(v_last.place + 1, first_place), first_hash = coalesce(v_last.hash, first_hash),
        dropped_before = greatest(dropped_before, v_horizon)
    WHERE chain = p_class;
    EXECUTE format('DROP TABLE agentq.%I', v_name);
    RETURN v_name;
END $$;
COMMENT ON FUNCTION agentq.fn_event_log_drop(text, timestamptz) IS 'Drops the oldest part of a chain if all its events have outlived their time and are gone; its name, or NULL.';

SELECT pg_catalog.pg_extension_config_dump('agentq.event_chain', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.event_seal', '');

INSERT INTO agentq.event (event_id, event_at, purpose, event_kind, subject, payload)
SELECT event_id, event_at, purpose, event_kind, subject, payload FROM agentq.event_former ORDER BY event_id;
ALTER EXTENSION agentq DROP TABLE agentq.event_former;
DROP TABLE agentq.event_former;

-- What a job has already done: its steps, the actions that must happen once, and the signals it waits for.

-- A step is begun, then done or failed. Whoever asks for one that is done is given its result. The primary key finds a
-- step by name; the index by position answers in which order the steps were first begun. No foreign key to job: see
-- the chore clean_flow, which removes the steps of jobs that are gone.
CREATE TABLE agentq.job_step (
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
CREATE INDEX job_step_position_idx ON agentq.job_step (order_job_id, position);
COMMENT ON TABLE agentq.job_step IS 'Storage: the steps of jobs. Read v_job_step instead.';
COMMENT ON COLUMN agentq.job_step.job_id IS 'The job.';
COMMENT ON COLUMN agentq.job_step.name IS 'Name of the step.';
COMMENT ON COLUMN agentq.job_step.occurrence IS '1, or which turn of a loop it is.';
COMMENT ON COLUMN agentq.job_step.position IS 'The order in which the steps of the job were first begun, from 1.';
COMMENT ON COLUMN agentq.job_step.attempts IS 'How often it was begun.';
COMMENT ON COLUMN agentq.job_step.kind IS 'step, or sleep or signal: a wait that is remembered like a step.';
COMMENT ON COLUMN agentq.job_step.status IS 'begun, done or failed.';
COMMENT ON COLUMN agentq.job_step.idempotent IS 'Whether it may be run again when nobody knows whether it was done.';
COMMENT ON COLUMN agentq.job_step.lease_token IS 'The attempt that last began it; NULL: taken over from the job of which this is another run.';
COMMENT ON COLUMN agentq.job_step.seen_by IS 'The attempt that last asked for it.';
COMMENT ON COLUMN agentq.job_step.began_at IS 'When it was last begun.';
COMMENT ON COLUMN agentq.job_step.ended_at IS 'When it was done, or failed.';
COMMENT ON COLUMN agentq.job_step.until_at IS 'Until when the job sleeps or waits; NULL: without end.';
COMMENT ON COLUMN agentq.job_step.inputs_hash IS 'SHA-256 of its inputs in canonical form.';
COMMENT ON COLUMN agentq.job_step.inputs_keys IS 'The beginning of the hash of each member of the inputs, to say which one changed.';
COMMENT ON COLUMN agentq.job_step.result IS 'What it gave.';
COMMENT ON COLUMN agentq.job_step.error IS 'Why it failed.';
COMMENT ON COLUMN agentq.job_step.order_job_id IS 'The job again, for the order of its steps.';

CREATE VIEW agentq.v_job_step AS
SELECT s.job_id, s.position, s.name, s.occurrence, s.kind,
       CASE WHEN s.status <> 'begun' THEN s.status
            WHEN s.kind = 'sleep' THEN 'sleeping'
            WHEN s.kind = 'signal' THEN 'waiting'
            WHEN l.job_id IS NOT NULL THEN 'running'
            WHEN s.idempotent THEN 'interrupted'
            ELSE 'unknown' END AS status,
       s.attempts, s.idempotent, s.began_at, s.ended_at, s.until_at, s.result, s.error, s.inputs_hash, s.lease_token
FROM agentq.job_step s
LEFT JOIN agentq.job_lease l ON l.job_id = s.job_id AND l.lease_token = s.lease_token;
COMMENT ON VIEW agentq.v_job_step IS 'The steps of every job, as they stand.';
COMMENT ON COLUMN agentq.v_job_step.job_id IS 'The job.';
COMMENT ON COLUMN agentq.v_job_step.position IS 'The order in which the steps of the job were first begun, from 1.';
COMMENT ON COLUMN agentq.v_job_step.name IS 'Name of the step.';
COMMENT ON COLUMN agentq.v_job_step.occurrence IS '1, or which turn of a loop it is.';
COMMENT ON COLUMN agentq.v_job_step.kind IS 'step, sleep or signal.';
COMMENT ON COLUMN agentq.v_job_step.status IS 'done or failed; running, while the attempt that began it holds the job; interrupted: it will run again; unknown: it must not run twice, and nobody knows whether it was done; sleeping, waiting.';
COMMENT ON COLUMN agentq.v_job_step.attempts IS 'How often it was begun.';
COMMENT ON COLUMN agentq.v_job_step.idempotent IS 'Whether it may be run again when nobody knows whether it was done.';
COMMENT ON COLUMN agentq.v_job_step.began_at IS 'When it was last begun.';
COMMENT ON COLUMN agentq.v_job_step.ended_at IS 'When it was done, or failed.';
COMMENT ON COLUMN agentq.v_job_step.until_at IS 'Until when the job sleeps or waits; NULL: without end.';
COMMENT ON COLUMN agentq.v_job_step.result IS 'What it gave.';
COMMENT ON COLUMN agentq.v_job_step.error IS 'Why it failed.';
COMMENT ON COLUMN agentq.v_job_step.inputs_hash IS 'SHA-256 of its inputs in canonical form.';
COMMENT ON COLUMN agentq.v_job_step.lease_token IS 'The attempt that last began it.';

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
COMMENT ON COLUMN agentq.action.action_key IS 'Names the action; the same for everybody who wants the same done.';
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
COMMENT ON COLUMN agentq.signal.taken_by IS 'The job that waited for it; NULL: nobody yet.';
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
CREATE TABLE agentq.signal_channel (
    name text COLLATE "C" NOT NULL,
    key  text COLLATE "C" NOT NULL,
    used integer NOT NULL DEFAULT 1,
    CONSTRAINT signal_channel_pkey PRIMARY KEY (name, key)
) WITH (fillfactor = 50);
COMMENT ON TABLE agentq.signal_channel IS 'Storage: what senders and waits of one name and key lock. A row may go when nothing is sent and nobody waits.';
COMMENT ON COLUMN agentq.signal_channel.name IS 'Name of the signal.';
COMMENT ON COLUMN agentq.signal_channel.key IS 'Its key.';
COMMENT ON COLUMN agentq.signal_channel.used IS 'Changed by whoever locks it.';

SELECT pg_catalog.pg_extension_config_dump('agentq.job_step', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.action', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.signal', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.signal_wait', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.signal_channel', '');

-- Missions: several steps with an order between them. A step becomes a job when those before it allow it.
--
--   mission        what it is and how it ended; its row changes a few times in its life, not with every step
--   mission_step   one row for each step, with the counters that say when it may begin
--   mission_edge   which step waits for which, and how that must end
--   mission_item   the jobs of a step that works through a list
--   mission_count  how many steps (or items) are open, spread over several rows, so that their ends seldom meet

-- The tables that every end of a step changes have domains in place of CHECKs: the server reads the CHECKs of a table anew
-- for every statement, which took a quarter of the time of such an end.
CREATE DOMAIN agentq.mission_step_status AS text CHECK (VALUE IN ('waiting', 'queued', 'succeeded', 'failed', 'skipped', 'cancelled'));
COMMENT ON DOMAIN agentq.mission_step_status IS 'Where a step of a mission stands.';
CREATE DOMAIN agentq.mission_number AS integer CHECK (VALUE >= 0);
COMMENT ON DOMAIN agentq.mission_number IS 'How many of something in a mission.';
CREATE DOMAIN agentq.mission_count_state AS text CHECK (VALUE IN ('running', 'paused', 'stopping'));
COMMENT ON DOMAIN agentq.mission_count_state IS 'Whether further steps of a mission become jobs.';

CREATE TABLE agentq.mission (
    mission_id        uuid NOT NULL,
    status            text NOT NULL,
    title             text,
    template          jsonb NOT NULL,
    step_count        integer NOT NULL,
    depth             integer NOT NULL DEFAULT 0,
    parent_step_id    uuid,
    forked_from       uuid,
    forked_step       text,
    command_id        uuid,
    source            text,
    actor             text NOT NULL,
    correlation_id    text,
    trace_id          text,
    policy_snapshot   jsonb,
    input             jsonb,
    idempotency_key   text COLLATE "C",
    cancellation_mode text NOT NULL DEFAULT 'graceful',
    cancel_reason     text,
    cancelled_by      text,
    failed_step       text,
    last_error        text,
    paused_at         timestamptz,
    paused_reason     text,
    deadline_at       timestamptz,
    created_at        timestamptz NOT NULL,
    started_at        timestamptz,
    completed_at      timestamptz,
    CONSTRAINT mission_pkey PRIMARY KEY (mission_id),
    CONSTRAINT mission_status_check CHECK (status IN
        ('approved', 'running', 'cancelling', 'compensating', 'succeeded', 'failed', 'cancelled')),
    CONSTRAINT mission_mode_check CHECK (cancellation_mode IN ('graceful', 'compensate_then_stop')),
    CONSTRAINT mission_completed_check CHECK ((completed_at IS NOT NULL) = (status IN ('succeeded', 'failed', 'cancelled'))),
    CONSTRAINT mission_started_check CHECK (status <> 'approved' OR (started_at IS NULL AND paused_at IS NOT NULL)),
    CONSTRAINT mission_failed_check CHECK (status <> 'failed' OR last_error IS NOT NULL),
    CONSTRAINT mission_size_check CHECK (step_count > 0 AND depth >= 0)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX mission_idempotency_uq ON agentq.mission (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX mission_open_idx ON agentq.mission (mission_id) WHERE completed_at IS NULL;
CREATE INDEX mission_completed_idx ON agentq.mission (completed_at) WHERE completed_at IS NOT NULL;
CREATE INDEX mission_deadline_idx ON agentq.mission (deadline_at) WHERE deadline_at IS NOT NULL AND completed_at IS NULL;
COMMENT ON TABLE agentq.mission IS 'Several steps with an order between them. Read v_mission, which counts them too.';
COMMENT ON COLUMN agentq.mission.mission_id IS 'Time-ordered id.';
COMMENT ON COLUMN agentq.mission.status IS 'approved, running, cancelling, compensating, succeeded, failed or cancelled.';
COMMENT ON COLUMN agentq.mission.title IS 'What it is called.';
COMMENT ON COLUMN agentq.mission.template IS 'What it was started with.';
COMMENT ON COLUMN agentq.mission.step_count IS 'How many steps it has.';
COMMENT ON COLUMN agentq.mission.depth IS 'In how many other missions it is.';
COMMENT ON COLUMN agentq.mission.parent_step_id IS 'The step of another mission whose work this mission is.';
COMMENT ON COLUMN agentq.mission.forked_from IS 'The mission of which it is a fork.';
COMMENT ON COLUMN agentq.mission.forked_step IS 'The step from which the fork begins.';
COMMENT ON COLUMN agentq.mission.command_id IS 'The command that started it.';
COMMENT ON COLUMN agentq.mission.source IS 'Where it comes from.';
COMMENT ON COLUMN agentq.mission.actor IS 'Who started it.';
COMMENT ON COLUMN agentq.mission.correlation_id IS 'What it belongs to, in the caller''s own words.';
COMMENT ON COLUMN agentq.mission.trace_id IS 'The caller''s trace.';
COMMENT ON COLUMN agentq.mission.policy_snapshot IS 'The policies in force when it was approved.';
COMMENT ON COLUMN agentq.mission.input IS 'What its steps may read as $.input.';
COMMENT ON COLUMN agentq.mission.idempotency_key IS 'A second start with this key answers with this mission.';
COMMENT ON COLUMN agentq.mission.cancellation_mode IS 'graceful or compensate_then_stop: what a cancel does.';
COMMENT ON COLUMN agentq.mission.cancel_reason IS 'Why it was cancelled.';
COMMENT ON COLUMN agentq.mission.cancelled_by IS 'Who cancelled it.';
COMMENT ON COLUMN agentq.mission.failed_step IS 'The first step whose failure ended it.';
COMMENT ON COLUMN agentq.mission.last_error IS 'Why it failed, or is about to.';
COMMENT ON COLUMN agentq.mission.paused_at IS 'Since when no further step becomes a job; NULL: it is not paused.';
COMMENT ON COLUMN agentq.mission.paused_reason IS 'Why it is paused.';
COMMENT ON COLUMN agentq.mission.deadline_at IS 'When it fails if it has not ended.';
COMMENT ON COLUMN agentq.mission.created_at IS 'When it was submitted.';
COMMENT ON COLUMN agentq.mission.started_at IS 'When its first steps became jobs.';
COMMENT ON COLUMN agentq.mission.completed_at IS 'When it ended.';

CREATE TABLE agentq.mission_step (
    step_id    uuid NOT NULL,
    mission_id uuid NOT NULL,
    position   integer NOT NULL,
    level      integer NOT NULL,
    depth      integer NOT NULL,
    shard      integer NOT NULL DEFAULT 0,
    need       agentq.mission_number NOT NULL,
    met        agentq.mission_number NOT NULL DEFAULT 0,
    pending    agentq.mission_number NOT NULL,
    children   agentq.mission_number NOT NULL,
    fails_mission boolean NOT NULL,
    status     agentq.mission_step_status NOT NULL DEFAULT 'waiting',
    ready_at   timestamptz,
    queued_at  timestamptz,
    ended_at   timestamptz,
    job_id     uuid,
    child_id   uuid,
    item_count integer,
    taken_from uuid,
    created_at timestamptz NOT NULL,
    name       text COLLATE "C" NOT NULL,
    kind       text NOT NULL,
    executor   text,
    last_error text,
    params     jsonb NOT NULL DEFAULT '{}',
    spec       jsonb,
    result     jsonb,
    CONSTRAINT mission_step_pkey PRIMARY KEY (step_id),
    CONSTRAINT mission_step_name_uq UNIQUE (mission_id, name)
) WITH (fillfactor = 70);
COMMENT ON TABLE agentq.mission_step IS 'Storage: the steps of missions. Read v_mission_step, which shows what became of their jobs.';
COMMENT ON COLUMN agentq.mission_step.step_id IS 'Ids of a mission''s steps are in the order of their levels: the order in which they are locked.';
COMMENT ON COLUMN agentq.mission_step.mission_id IS 'The mission.';
COMMENT ON COLUMN agentq.mission_step.position IS 'Its number in the template, from 0.';
COMMENT ON COLUMN agentq.mission_step.level IS 'The longest way to it from a step that waits for none.';
COMMENT ON COLUMN agentq.mission_step.depth IS 'As in mission.';
COMMENT ON COLUMN agentq.mission_step.shard IS 'The row of mission_count in which it is counted.';
COMMENT ON COLUMN agentq.mission_step.need IS 'How many steps before it must end as it asks.';
COMMENT ON COLUMN agentq.mission_step.met IS 'How many have.';
COMMENT ON COLUMN agentq.mission_step.pending IS 'How many steps before it have not ended.';
COMMENT ON COLUMN agentq.mission_step.children IS 'How many steps wait for it.';
COMMENT ON COLUMN agentq.mission_step.fails_mission IS 'Whether its failure ends the mission.';
COMMENT ON COLUMN agentq.mission_step.status IS 'waiting, queued, succeeded, failed, skipped or cancelled.';
COMMENT ON COLUMN agentq.mission_step.ready_at IS 'When it might have begun, if the mission was paused then.';
COMMENT ON COLUMN agentq.mission_step.queued_at IS 'When it became a job, several jobs or a mission.';
COMMENT ON COLUMN agentq.mission_step.ended_at IS 'When it ended.';
COMMENT ON COLUMN agentq.mission_step.job_id IS 'Its job.';
COMMENT ON COLUMN agentq.mission_step.child_id IS 'The mission that is its work.';
COMMENT ON COLUMN agentq.mission_step.item_count IS 'How many items it works through, each with a job in mission_item.';
COMMENT ON COLUMN agentq.mission_step.taken_from IS 'The step of the forked mission whose result it has.';
COMMENT ON COLUMN agentq.mission_step.created_at IS 'When it was submitted.';
COMMENT ON COLUMN agentq.mission_step.name IS 'Its name, unique in the mission.';
COMMENT ON COLUMN agentq.mission_step.kind IS 'The kind of its jobs.';
COMMENT ON COLUMN agentq.mission_step.executor IS 'Who is to do it; handed to the worker.';
COMMENT ON COLUMN agentq.mission_step.last_error IS 'Why it failed, was skipped or was cancelled.';
COMMENT ON COLUMN agentq.mission_step.params IS 'Its parameters, as in the template.';
COMMENT ON COLUMN agentq.mission_step.spec IS 'Its condition, list, time-out and the like; NULL: none.';
COMMENT ON COLUMN agentq.mission_step.result IS 'What its job handed in; of a list, what its jobs did, in order.';

CREATE TABLE agentq.mission_edge (
    parent_id   uuid NOT NULL,
    child_id    uuid NOT NULL,
    child_level integer NOT NULL,
    required    text NOT NULL,
    CONSTRAINT mission_edge_pkey PRIMARY KEY (parent_id, child_id),
    CONSTRAINT mission_edge_required_check CHECK (required IN ('succeeded', 'failed', 'skipped', 'ended'))
);
CREATE INDEX mission_edge_child_idx ON agentq.mission_edge (child_id);
COMMENT ON TABLE agentq.mission_edge IS 'Storage: which step waits for which.';
COMMENT ON COLUMN agentq.mission_edge.parent_id IS 'The step that comes first.';
COMMENT ON COLUMN agentq.mission_edge.child_id IS 'The step that waits for it.';
COMMENT ON COLUMN agentq.mission_edge.child_level IS 'The level of that step.';
COMMENT ON COLUMN agentq.mission_edge.required IS 'How the first must end: succeeded, failed, skipped or ended.';

CREATE TABLE agentq.mission_item (
    step_id    uuid NOT NULL,
    item       integer NOT NULL,
    job_id     uuid NOT NULL,
    status     agentq.mission_step_status NOT NULL DEFAULT 'queued',
    ended_at   timestamptz,
    last_error text,
    result     jsonb,
    CONSTRAINT mission_item_pkey PRIMARY KEY (step_id, item)
) WITH (fillfactor = 70);
COMMENT ON TABLE agentq.mission_item IS 'The items of steps that work through a list: one job for each.';
COMMENT ON COLUMN agentq.mission_item.step_id IS 'The step.';
COMMENT ON COLUMN agentq.mission_item.item IS 'The number of the item, from 0.';
COMMENT ON COLUMN agentq.mission_item.job_id IS 'Its job.';
COMMENT ON COLUMN agentq.mission_item.status IS 'queued, succeeded, failed or cancelled.';
COMMENT ON COLUMN agentq.mission_item.ended_at IS 'When its job ended.';
COMMENT ON COLUMN agentq.mission_item.last_error IS 'Why it failed or was cancelled.';
COMMENT ON COLUMN agentq.mission_item.result IS 'What its job handed in.';

CREATE TABLE agentq.mission_count (
    owner_id uuid NOT NULL,
    shard    integer NOT NULL,
    active   agentq.mission_number NOT NULL,
    state    agentq.mission_count_state NOT NULL DEFAULT 'running',
    CONSTRAINT mission_count_pkey PRIMARY KEY (owner_id, shard)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE INDEX mission_count_stopping_idx ON agentq.mission_count (owner_id) WHERE state = 'stopping';
COMMENT ON TABLE agentq.mission_count IS 'Storage: how many steps of a mission, or items of a step, are under way. Gone when it has ended.';
COMMENT ON COLUMN agentq.mission_count.owner_id IS 'The mission, or the step that works through a list.';
COMMENT ON COLUMN agentq.mission_count.shard IS 'The number of the row, from 0.';
COMMENT ON COLUMN agentq.mission_count.active IS 'How many of those counted here are under way.';
COMMENT ON COLUMN agentq.mission_count.state IS 'running, paused or stopping: whether further steps become jobs. The same in all rows of a mission.';

CREATE VIEW agentq.v_mission_step AS
SELECT s.step_id,
       s.mission_id,
       s.position,
       s.name,
       s.kind,
       s.params,
       CASE WHEN s.status <> 'queued' THEN s.status::text
            WHEN l.job_id IS NOT NULL OR s.child_id IS NOT NULL THEN 'running'
            WHEN s.item_count IS NOT NULL AND EXISTS (SELECT FROM agentq.mission_item i JOIN agentq.job_lease il ON il.job_id = i.job_id
                WHERE i.step_id = s.step_id) THEN 'running'
            ELSE 'queued' END AS status,
       s.executor,
       l.picked_at AS reserved_at,
       l.lease_until AS lease_expires_at,
       coalesce(j.attempts::integer, 0) AS failure_count,
       coalesce(j.max_attempts::integer, (s.spec->>'max_attempts')::integer) AS max_retries,
       coalesce(s.last_error, j.last_error) AS last_error,
       s.result,
       s.created_at,
       greatest(s.created_at, s.ready_at, s.queued_at, s.ended_at, l.picked_at, l.started_at) AS updated_at,
       s.queued_at,
       s.ended_at,
       s.job_id,
       s.child_id AS child_mission_id,
       s.item_count,
       s.taken_from,
       s.ready_at IS NOT NULL AND s.status = 'waiting' AS held
FROM agentq.mission_step s
LEFT JOIN agentq.job j ON j.job_id = s.job_id
LEFT JOIN agentq.job_lease l ON l.job_id = s.job_id;
COMMENT ON VIEW agentq.v_mission_step IS 'The steps of missions, with what is known of their jobs.';
COMMENT ON COLUMN agentq.v_mission_step.step_id IS 'The step.';
COMMENT ON COLUMN agentq.v_mission_step.mission_id IS 'Its mission.';
COMMENT ON COLUMN agentq.v_mission_step.position IS 'Its number in the template, from 0.';
COMMENT ON COLUMN agentq.v_mission_step.name IS 'Its name.';
COMMENT ON COLUMN agentq.v_mission_step.kind IS 'The kind of its jobs.';
COMMENT ON COLUMN agentq.v_mission_step.params IS 'Its parameters, as in the template.';
COMMENT ON COLUMN agentq.v_mission_step.status IS 'waiting, queued, running, succeeded, failed, skipped or cancelled.';
COMMENT ON COLUMN agentq.v_mission_step.executor IS 'Who is to do it.';
COMMENT ON COLUMN agentq.v_mission_step.reserved_at IS 'When a worker claimed its job.';
COMMENT ON COLUMN agentq.v_mission_step.lease_expires_at IS 'Until when that worker holds it.';
COMMENT ON COLUMN agentq.v_mission_step.failure_count IS 'Attempts at its job that ended without success.';
COMMENT ON COLUMN agentq.v_mission_step.max_retries IS 'Attempts that its job has.';
COMMENT ON COLUMN agentq.v_mission_step.last_error IS 'Why it failed, was skipped or was cancelled, or the last attempt''s error.';
COMMENT ON COLUMN agentq.v_mission_step.result IS 'What its job handed in.';
COMMENT ON COLUMN agentq.v_mission_step.created_at IS 'When it was submitted.';
COMMENT ON COLUMN agentq.v_mission_step.updated_at IS 'When it last changed.';
COMMENT ON COLUMN agentq.v_mission_step.queued_at IS 'When it became a job.';
COMMENT ON COLUMN agentq.v_mission_step.ended_at IS 'When it ended.';
COMMENT ON COLUMN agentq.v_mission_step.job_id IS 'Its job.';
COMMENT ON COLUMN agentq.v_mission_step.child_mission_id IS 'The mission that is its work.';
COMMENT ON COLUMN agentq.v_mission_step.item_count IS 'How many items it works through.';
COMMENT ON COLUMN agentq.v_mission_step.taken_from IS 'The step of the forked mission whose result it has.';
COMMENT ON COLUMN agentq.v_mission_step.held IS 'Whether it might begin, but for the pause of its mission.';

CREATE VIEW agentq.v_mission AS
SELECT m.mission_id, m.status, m.title, m.source, m.actor, m.step_count,
       c.waiting, c.open, c.succeeded, c.failed, c.skipped, c.cancelled,
       m.failed_step, m.last_error, m.paused_at, m.paused_reason, m.cancellation_mode, m.cancel_reason, m.cancelled_by,
       m.deadline_at, m.created_at, m.started_at, m.completed_at,
       p.mission_id AS parent_mission_id, p.name AS parent_step, m.depth, m.forked_from, m.forked_step, m.command_id,
       m.correlation_id, m.trace_id, m.idempotency_key, m.policy_snapshot, m.template
FROM agentq.mission m
LEFT JOIN agentq.mission_step p ON p.step_id = m.parent_step_id
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE s.status = 'waiting') AS waiting,
           count(*) FILTER (WHERE s.status = 'queued') AS open,
           count(*) FILTER (WHERE s.status = 'succeeded') AS succeeded,
           count(*) FILTER (WHERE s.status = 'failed') AS failed,
           count(*) FILTER (WHERE s.status = 'skipped') AS skipped,
           count(*) FILTER (WHERE s.status = 'cancelled') AS cancelled
    FROM agentq.mission_step s WHERE s.mission_id = m.mission_id) c;
COMMENT ON VIEW agentq.v_mission IS 'Missions, with how many of their steps stand where.';
COMMENT ON COLUMN agentq.v_mission.mission_id IS 'The mission.';
COMMENT ON COLUMN agentq.v_mission.status IS 'approved, running, cancelling, compensating, succeeded, failed or cancelled.';
COMMENT ON COLUMN agentq.v_mission.title IS 'What it is called.';
COMMENT ON COLUMN agentq.v_mission.source IS 'Where it comes from.';
COMMENT ON COLUMN agentq.v_mission.actor IS 'Who started it.';
COMMENT ON COLUMN agentq.v_mission.step_count IS 'How many steps it has.';
COMMENT ON COLUMN agentq.v_mission.waiting IS 'Steps that wait for others.';
COMMENT ON COLUMN agentq.v_mission.open IS 'Steps that are queued or run.';
COMMENT ON COLUMN agentq.v_mission.succeeded IS 'Steps that succeeded.';
COMMENT ON COLUMN agentq.v_mission.failed IS 'Steps that failed.';
COMMENT ON COLUMN agentq.v_mission.skipped IS 'Steps that were skipped.';
COMMENT ON COLUMN agentq.v_mission.cancelled IS 'Steps that were cancelled.';
COMMENT ON COLUMN agentq.v_mission.failed_step IS 'The first step whose failure ended it.';
COMMENT ON COLUMN agentq.v_mission.last_error IS 'Why it failed, or is about to.';
COMMENT ON COLUMN agentq.v_mission.paused_at IS 'Since when it is paused.';
COMMENT ON COLUMN agentq.v_mission.paused_reason IS 'Why it is paused.';
COMMENT ON COLUMN agentq.v_mission.cancellation_mode IS 'What a cancel does.';
COMMENT ON COLUMN agentq.v_mission.cancel_reason IS 'Why it was cancelled.';
COMMENT ON COLUMN agentq.v_mission.cancelled_by IS 'Who cancelled it.';
COMMENT ON COLUMN agentq.v_mission.deadline_at IS 'When it fails if it has not ended.';
COMMENT ON COLUMN agentq.v_mission.created_at IS 'When it was submitted.';
COMMENT ON COLUMN agentq.v_mission.started_at IS 'When its first steps became jobs.';
COMMENT ON COLUMN agentq.v_mission.completed_at IS 'When it ended.';
COMMENT ON COLUMN agentq.v_mission.parent_mission_id IS 'The mission in which it is.';
COMMENT ON COLUMN agentq.v_mission.parent_step IS 'The step of that mission whose work it is.';
COMMENT ON COLUMN agentq.v_mission.depth IS 'In how many other missions it is.';
COMMENT ON COLUMN agentq.v_mission.forked_from IS 'The mission of which it is a fork.';
COMMENT ON COLUMN agentq.v_mission.forked_step IS 'The step from which the fork begins.';
COMMENT ON COLUMN agentq.v_mission.command_id IS 'The command that started it.';
COMMENT ON COLUMN agentq.v_mission.correlation_id IS 'What it belongs to.';
COMMENT ON COLUMN agentq.v_mission.trace_id IS 'The caller''s trace.';
COMMENT ON COLUMN agentq.v_mission.idempotency_key IS 'A second start with this key answers with this mission.';
COMMENT ON COLUMN agentq.v_mission.policy_snapshot IS 'The policies in force when it was approved.';
COMMENT ON COLUMN agentq.v_mission.template IS 'What it was started with.';

CREATE VIEW agentq.v_action_run AS
SELECT a.lease_token AS id,
       a.job_id || '#' || a.attempt_no AS run_id,
       s.step_id,
       s.mission_id,
       s.name AS step,
       coalesce(s.executor, s.kind) AS executor,
       CASE WHEN a.ended_at IS NULL THEN 'started' WHEN a.outcome = 'succeeded' THEN 'succeeded' ELSE 'failed' END AS status,
       a.began_at AS started_at,
       a.ended_at AS completed_at,
       jsonb_strip_nulls(jsonb_build_object('lease_owner', a.lease_owner, 'outcome', a.outcome, 'attempt_no', a.attempt_no,
           'error_class', a.error_class, 'item', w.item)) AS meta,
       a.error
FROM (SELECT step_id, job_id, NULL::integer AS item FROM agentq.mission_step WHERE job_id IS NOT NULL
      UNION ALL SELECT step_id, job_id, item FROM agentq.mission_item) w
JOIN agentq.mission_step s ON s.step_id = w.step_id
CROSS JOIN LATERAL (SELECT * FROM agentq.job_attempt a WHERE a.job_id = w.job_id) a;
COMMENT ON VIEW agentq.v_action_run IS 'Every attempt at a step of a mission.';
COMMENT ON COLUMN agentq.v_action_run.id IS 'The token of that attempt.';
COMMENT ON COLUMN agentq.v_action_run.run_id IS 'The job and the number of the attempt.';
COMMENT ON COLUMN agentq.v_action_run.step_id IS 'The step.';
COMMENT ON COLUMN agentq.v_action_run.mission_id IS 'Its mission.';
COMMENT ON COLUMN agentq.v_action_run.step IS 'The name of the step.';
COMMENT ON COLUMN agentq.v_action_run.executor IS 'Who was to do it; the step''s kind if it names nobody.';
COMMENT ON COLUMN agentq.v_action_run.status IS 'started, succeeded or failed.';
COMMENT ON COLUMN agentq.v_action_run.started_at IS 'When it was claimed.';
COMMENT ON COLUMN agentq.v_action_run.completed_at IS 'When it ended.';
COMMENT ON COLUMN agentq.v_action_run.meta IS 'The worker, the outcome, the number of the attempt, the class of its error and the item.';
COMMENT ON COLUMN agentq.v_action_run.error IS 'Its error.';

SELECT pg_catalog.pg_extension_config_dump('agentq.mission', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.mission_step', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.mission_edge', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.mission_item', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.mission_count', '');

-- Effects and their compensation.
--
-- The catalog says what operations change outside and what counters it: effect_operation, effect_compensation and
-- effect_type, which are set together and checked together, and effect_manifest, every version that there was.
-- effect has what jobs have planned and done; effect_chain the compensations that are carried out one after the
-- other; effect_drift what was done otherwise than declared.

CREATE TABLE agentq.effect_manifest (
    version     bigint NOT NULL,
    manifest_id uuid NOT NULL,
    manifest    jsonb NOT NULL,
    note        text,
    set_at      timestamptz NOT NULL,
    set_by      text NOT NULL,
    CONSTRAINT effect_manifest_pkey PRIMARY KEY (version),
    CONSTRAINT effect_manifest_version_check CHECK (version >= 1),
    CONSTRAINT effect_manifest_manifest_check CHECK (jsonb_typeof(manifest) = 'object')
);
COMMENT ON TABLE agentq.effect_manifest IS 'Every version of the catalog of operations and compensations; the last one is in force.';
COMMENT ON COLUMN agentq.effect_manifest.version IS 'Counts up from 1.';
COMMENT ON COLUMN agentq.effect_manifest.manifest_id IS 'Time-ordered id, never used again.';
COMMENT ON COLUMN agentq.effect_manifest.manifest IS 'The whole catalog, as fn_effect_manifest_set takes it, with every default written out.';
COMMENT ON COLUMN agentq.effect_manifest.note IS 'Why it was changed.';
COMMENT ON COLUMN agentq.effect_manifest.set_at IS 'When it came into force.';
COMMENT ON COLUMN agentq.effect_manifest.set_by IS 'Who set it.';

CREATE TABLE agentq.effect_operation (
    operation             text NOT NULL,
    produces              text[] NOT NULL,
    requires_compensation boolean NOT NULL,
    compensation          text,
    job_kind              text NOT NULL,
    CONSTRAINT effect_operation_pkey PRIMARY KEY (operation),
    CONSTRAINT effect_operation_job_kind_uq UNIQUE (job_kind),
    CONSTRAINT effect_operation_name_check CHECK (btrim(operation) <> '' AND octet_length(operation) <= 200)
);
COMMENT ON TABLE agentq.effect_operation IS 'Operations: work that changes something outside. Set with fn_effect_manifest_set.';
COMMENT ON COLUMN agentq.effect_operation.operation IS 'Name of the operation.';
COMMENT ON COLUMN agentq.effect_operation.produces IS 'The types of its effects.';
COMMENT ON COLUMN agentq.effect_operation.requires_compensation IS 'Whether each of its effects must have a compensation.';
COMMENT ON COLUMN agentq.effect_operation.compensation IS 'The compensation of effects for which no other is meant; NULL: the only one there is.';
COMMENT ON COLUMN agentq.effect_operation.job_kind IS 'Jobs of this kind carry it out.';

CREATE TABLE agentq.effect_compensation (
    compensation          text NOT NULL,
    of_operation          text NOT NULL,
    produces              text[] NOT NULL,
    counter_effects       boolean NOT NULL,
    requires_compensation boolean NOT NULL,
    job_kind              text NOT NULL,
    queue                 text NOT NULL,
    max_attempts          integer,
    CONSTRAINT effect_compensation_pkey PRIMARY KEY (compensation),
    CONSTRAINT effect_compensation_name_check CHECK (btrim(compensation) <> '' AND octet_length(compensation) <= 200),
    CONSTRAINT effect_compensation_self_check CHECK (compensation <> of_operation),
    CONSTRAINT effect_compensation_attempts_check CHECK (max_attempts >= 1)
);
COMMENT ON TABLE agentq.effect_compensation IS 'Compensations: work that counters the effects of an operation. Set with fn_effect_manifest_set.';
COMMENT ON COLUMN agentq.effect_compensation.compensation IS 'Name of the compensation.';
COMMENT ON COLUMN agentq.effect_compensation.of_operation IS 'The operation, or other compensation, whose effects it counters.';
COMMENT ON COLUMN agentq.effect_compensation.produces IS 'The types of effects that it has itself.';
COMMENT ON COLUMN agentq.effect_compensation.counter_effects IS 'Whether these are inverses of what it counters, and no new work.';
COMMENT ON COLUMN agentq.effect_compensation.requires_compensation IS 'Whether each of its own effects must have a compensation.';
COMMENT ON COLUMN agentq.effect_compensation.job_kind IS 'Kind of the jobs that carry it out.';
COMMENT ON COLUMN agentq.effect_compensation.queue IS 'Queue of these jobs.';
COMMENT ON COLUMN agentq.effect_compensation.max_attempts IS 'Attempts of these jobs; NULL: what holds for their kind and queue.';

CREATE TABLE agentq.effect_type (
    effect_type text NOT NULL,
    inverse     text,
    idempotent  boolean NOT NULL,
    CONSTRAINT effect_type_pkey PRIMARY KEY (effect_type),
    CONSTRAINT effect_type_name_check CHECK (btrim(effect_type) <> '' AND octet_length(effect_type) <= 200)
);
COMMENT ON TABLE agentq.effect_type IS 'What is declared of types of effects. Set with fn_effect_manifest_set.';
COMMENT ON COLUMN agentq.effect_type.effect_type IS 'Name of the type.';
COMMENT ON COLUMN agentq.effect_type.inverse IS 'The type that undoes it.';
COMMENT ON COLUMN agentq.effect_type.idempotent IS 'Whether it may be repeated when it is not known whether it happened.';

CREATE SEQUENCE agentq.effect_seq;

CREATE TABLE agentq.effect (
    effect_id             uuid NOT NULL,
    seq                   bigint NOT NULL DEFAULT nextval('agentq.effect_seq'),
    mission_id            uuid,
    step_id               uuid,
    job_id                uuid NOT NULL,
    effect_type           text NOT NULL,
    payload               jsonb NOT NULL,
    idempotency_key       text NOT NULL,
    declared_compensation text,
    counter_effects       boolean NOT NULL DEFAULT false,
    idempotent            boolean NOT NULL DEFAULT false,
    manifest_version      bigint,
    status                text NOT NULL DEFAULT 'planned',
    lease_token           uuid,
    begun                 integer NOT NULL DEFAULT 0,
    result                jsonb,
    error                 text,
    compensates           uuid,
    chain_id              uuid,
    compensation_job_id   uuid,
    planned_at            timestamptz NOT NULL,
    begun_at              timestamptz,
    ended_at              timestamptz,
    compensated_at        timestamptz,
    CONSTRAINT effect_pkey PRIMARY KEY (effect_id),
    CONSTRAINT effect_status_check CHECK (status IN ('planned', 'executing', 'succeeded', 'failed', 'compensating', 'compensated', 'compensation_failed')),
    CONSTRAINT effect_payload_check CHECK (jsonb_typeof(payload) = 'object'),
    CONSTRAINT effect_begun_check CHECK ((status = 'planned') = (begun = 0)),
    CONSTRAINT effect_executing_check CHECK (status <> 'executing' OR (lease_token IS NOT NULL AND begun_at IS NOT NULL)),
    CONSTRAINT effect_compensation_check CHECK (status NOT IN ('compensating', 'compensated', 'compensation_failed')
        OR (declared_compensation IS NOT NULL AND chain_id IS NOT NULL)),
    CONSTRAINT effect_compensating_check CHECK (status NOT IN ('compensating', 'compensated') OR compensation_job_id IS NOT NULL),
    CONSTRAINT effect_compensated_check CHECK ((status = 'compensated') = (compensated_at IS NOT NULL))
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX effect_key_uq ON agentq.effect (job_id, effect_type, idempotency_key);
CREATE INDEX effect_mission_idx ON agentq.effect (mission_id, seq) WHERE mission_id IS NOT NULL;
CREATE INDEX effect_chain_idx ON agentq.effect (chain_id, seq) WHERE chain_id IS NOT NULL;
CREATE INDEX effect_compensation_job_idx ON agentq.effect (compensation_job_id) WHERE compensation_job_id IS NOT NULL;
ALTER SEQUENCE agentq.effect_seq OWNED BY agentq.effect.seq;
COMMENT ON TABLE agentq.effect IS 'What jobs change outside: planned before it is done, and kept with its outcome. Read v_effect.';
COMMENT ON COLUMN agentq.effect.effect_id IS 'Time-ordered id.';
COMMENT ON COLUMN agentq.effect.seq IS 'The order in which effects were declared.';
COMMENT ON COLUMN agentq.effect.mission_id IS 'The mission of its job, if there is one.';
COMMENT ON COLUMN agentq.effect.step_id IS 'The step of its job, if there is one.';
COMMENT ON COLUMN agentq.effect.job_id IS 'The job that planned it, and whose holder carries it out.';
COMMENT ON COLUMN agentq.effect.effect_type IS 'What kind of effect it is.';
COMMENT ON COLUMN agentq.effect.payload IS 'What is to be done, as a small signal.';
COMMENT ON COLUMN agentq.effect.idempotency_key IS 'Known to the other side: the same in every attempt.';
COMMENT ON COLUMN agentq.effect.declared_compensation IS 'The compensation that counters it; NULL: none.';
COMMENT ON COLUMN agentq.effect.counter_effects IS 'Whether it only undoes an earlier effect.';
COMMENT ON COLUMN agentq.effect.idempotent IS 'Whether it may be repeated when it is not known whether it happened.';
COMMENT ON COLUMN agentq.effect.manifest_version IS 'The version of the catalog that was in force when it was planned.';
COMMENT ON COLUMN agentq.effect.status IS 'planned, executing, succeeded, failed, compensating, compensated or compensation_failed.';
COMMENT ON COLUMN agentq.effect.lease_token IS 'The lease under which it was last begun.';
COMMENT ON COLUMN agentq.effect.begun IS 'How often it was begun.';
COMMENT ON COLUMN agentq.effect.result IS 'What the worker handed in when it had succeeded.';
COMMENT ON COLUMN agentq.effect.error IS 'Why it, or its compensation, last failed.';
COMMENT ON COLUMN agentq.effect.compensates IS 'The effect that its job compensates.';
COMMENT ON COLUMN agentq.effect.chain_id IS 'The chain of compensations that it was last part of.';
COMMENT ON COLUMN agentq.effect.compensation_job_id IS 'The job that last compensated it.';
COMMENT ON COLUMN agentq.effect.planned_at IS 'When it was planned.';
COMMENT ON COLUMN agentq.effect.begun_at IS 'When it was last begun.';
COMMENT ON COLUMN agentq.effect.ended_at IS 'When it succeeded or last failed.';
COMMENT ON COLUMN agentq.effect.compensated_at IS 'When it had been compensated.';

CREATE TABLE agentq.effect_chain (
    chain_id     uuid NOT NULL,
    mission_id   uuid,
    job_id       uuid,
    status       text NOT NULL DEFAULT 'running',
    effects      integer NOT NULL,
    compensated  integer NOT NULL DEFAULT 0,
    unknown      integer NOT NULL DEFAULT 0,
    irreversible integer NOT NULL DEFAULT 0,
    reason       text,
    error        text,
    started_by   text NOT NULL,
    started_at   timestamptz NOT NULL,
    ended_at     timestamptz,
    CONSTRAINT effect_chain_pkey PRIMARY KEY (chain_id),
    CONSTRAINT effect_chain_scope_check CHECK (num_nonnulls(mission_id, job_id) = 1),
    CONSTRAINT effect_chain_status_check CHECK (status IN ('running', 'compensated', 'halted')),
    CONSTRAINT effect_chain_ended_check CHECK ((status = 'running') = (ended_at IS NULL)),
    CONSTRAINT effect_chain_counts_check CHECK (effects >= 0 AND compensated BETWEEN 0 AND effects AND unknown >= 0 AND irreversible >= 0),
    CONSTRAINT effect_chain_complete_check CHECK (status <> 'compensated' OR compensated = effects)
) WITH (fillfactor = 80);
-- Of two sessions that compensate the same at once, one makes the row.
CREATE UNIQUE INDEX effect_chain_mission_uq ON agentq.effect_chain (mission_id) WHERE status = 'running' AND mission_id IS NOT NULL;
CREATE UNIQUE INDEX effect_chain_job_uq ON agentq.effect_chain (job_id) WHERE status = 'running' AND job_id IS NOT NULL;
COMMENT ON TABLE agentq.effect_chain IS 'Compensations that run one after the other, in reverse order of declaration. A chain that has halted shows how far it came.';
COMMENT ON COLUMN agentq.effect_chain.chain_id IS 'Time-ordered id.';
COMMENT ON COLUMN agentq.effect_chain.mission_id IS 'The mission whose effects are compensated.';
COMMENT ON COLUMN agentq.effect_chain.job_id IS 'Or the job whose effects are.';
COMMENT ON COLUMN agentq.effect_chain.status IS 'running, compensated, or halted at a compensation that failed for good.';
COMMENT ON COLUMN agentq.effect_chain.effects IS 'Effects that were to be compensated.';
COMMENT ON COLUMN agentq.effect_chain.compensated IS 'Effects that have been.';
COMMENT ON COLUMN agentq.effect_chain.unknown IS 'Effects left alone, because nobody knew whether they had happened.';
COMMENT ON COLUMN agentq.effect_chain.irreversible IS 'Effects left alone, because no compensation was declared for them.';
COMMENT ON COLUMN agentq.effect_chain.reason IS 'Why they are compensated.';
COMMENT ON COLUMN agentq.effect_chain.error IS 'Why it halted.';
COMMENT ON COLUMN agentq.effect_chain.started_by IS 'Who asked for it.';
COMMENT ON COLUMN agentq.effect_chain.started_at IS 'When it began.';
COMMENT ON COLUMN agentq.effect_chain.ended_at IS 'When it had ended.';

CREATE TABLE agentq.effect_drift (
    job_id           uuid NOT NULL,
    effect_type      text NOT NULL,
    drift            text NOT NULL,
    about            text NOT NULL,
    declared_by      text NOT NULL,
    compensates      uuid,
    mission_id       uuid,
    manifest_version bigint,
    found_at         timestamptz NOT NULL,
    CONSTRAINT effect_drift_pkey PRIMARY KEY (job_id, effect_type, drift),
    CONSTRAINT effect_drift_drift_check CHECK (drift IN ('undeclared', 'missing')),
    CONSTRAINT effect_drift_about_check CHECK (about IN ('operation', 'compensation'))
);
COMMENT ON TABLE agentq.effect_drift IS 'Where jobs did otherwise than the manifest declares. Read v_effect_drift.';
COMMENT ON COLUMN agentq.effect_drift.job_id IS 'The job.';
COMMENT ON COLUMN agentq.effect_drift.effect_type IS 'The type of the effect.';
COMMENT ON COLUMN agentq.effect_drift.drift IS 'undeclared: planned and not declared; missing: declared and not done.';
COMMENT ON COLUMN agentq.effect_drift.about IS 'operation or compensation.';
COMMENT ON COLUMN agentq.effect_drift.declared_by IS 'The operation or compensation whose declaration it differs from.';
COMMENT ON COLUMN agentq.effect_drift.compensates IS 'The effect that the job compensates.';
COMMENT ON COLUMN agentq.effect_drift.mission_id IS 'The mission, if there is one.';
COMMENT ON COLUMN agentq.effect_drift.manifest_version IS 'The version of the catalog that was in force.';
COMMENT ON COLUMN agentq.effect_drift.found_at IS 'When it was found.';

CREATE VIEW agentq.v_effect AS
SELECT e.effect_id, e.seq, e.mission_id, e.step_id, e.job_id, j.job_kind, j.state AS job_state, e.effect_type, e.status,
       e.status = 'executing' AND NOT EXISTS (
           SELECT FROM agentq.job_lease l WHERE l.job_id = e.job_id AND l.lease_token = e.lease_token) AS outcome_unknown,
       e.idempotency_key, e.payload, e.result, e.error, e.begun, e.declared_compensation, e.counter_effects, e.idempotent,
       e.compensates, e.chain_id, e.compensation_job_id, e.manifest_version, e.planned_at, e.begun_at, e.ended_at, e.compensated_at
FROM agentq.effect e
LEFT JOIN agentq.job_queue j ON j.job_id = e.job_id;
COMMENT ON VIEW agentq.v_effect IS 'What jobs have changed outside, are changing, and mean to change.';
COMMENT ON COLUMN agentq.v_effect.effect_id IS 'The effect.';
COMMENT ON COLUMN agentq.v_effect.seq IS 'The order in which effects were declared.';
COMMENT ON COLUMN agentq.v_effect.mission_id IS 'The mission of its job.';
COMMENT ON COLUMN agentq.v_effect.step_id IS 'The step of its job.';
COMMENT ON COLUMN agentq.v_effect.job_id IS 'The job that planned it.';
COMMENT ON COLUMN agentq.v_effect.job_kind IS 'The kind of that job; NULL: it has been removed.';
COMMENT ON COLUMN agentq.v_effect.job_state IS 'The state of that job.';
COMMENT ON COLUMN agentq.v_effect.effect_type IS 'What kind of effect it is.';
COMMENT ON COLUMN agentq.v_effect.status IS 'planned, executing, succeeded, failed, compensating, compensated or compensation_failed.';
COMMENT ON COLUMN agentq.v_effect.outcome_unknown IS 'Whether it was begun under a lease that is gone, and never ended.';
COMMENT ON COLUMN agentq.v_effect.idempotency_key IS 'The key that the other side is given.';
COMMENT ON COLUMN agentq.v_effect.payload IS 'What is to be done.';
COMMENT ON COLUMN agentq.v_effect.result IS 'What came of it.';
COMMENT ON COLUMN agentq.v_effect.error IS 'Why it, or its compensation, last failed.';
COMMENT ON COLUMN agentq.v_effect.begun IS 'How often it was begun.';
COMMENT ON COLUMN agentq.v_effect.declared_compensation IS 'The compensation that counters it.';
COMMENT ON COLUMN agentq.v_effect.counter_effects IS 'Whether it only undoes an earlier effect.';
COMMENT ON COLUMN agentq.v_effect.idempotent IS 'Whether it may be repeated.';
COMMENT ON COLUMN agentq.v_effect.compensates IS 'The effect that its job compensates.';
COMMENT ON COLUMN agentq.v_effect.chain_id IS 'The chain of compensations that it was last part of.';
COMMENT ON COLUMN agentq.v_effect.compensation_job_id IS 'The job that last compensated it.';
COMMENT ON COLUMN agentq.v_effect.manifest_version IS 'The version of the catalog when it was planned.';
COMMENT ON COLUMN agentq.v_effect.planned_at IS 'When it was planned.';
COMMENT ON COLUMN agentq.v_effect.begun_at IS 'When it was last begun.';
COMMENT ON COLUMN agentq.v_effect.ended_at IS 'When it succeeded or last failed.';
COMMENT ON COLUMN agentq.v_effect.compensated_at IS 'When it had been compensated.';

CREATE VIEW agentq.v_effect_drift AS
SELECT d.found_at, d.about, d.declared_by, d.drift, d.effect_type, d.job_id, j.job_kind, d.compensates, d.mission_id, d.manifest_version
FROM agentq.effect_drift d
LEFT JOIN agentq.job j ON j.job_id = d.job_id;
COMMENT ON VIEW agentq.v_effect_drift IS 'Where jobs did otherwise than the manifest declares.';
COMMENT ON COLUMN agentq.v_effect_drift.found_at IS 'When it was found.';
COMMENT ON COLUMN agentq.v_effect_drift.about IS 'operation or compensation.';
COMMENT ON COLUMN agentq.v_effect_drift.declared_by IS 'The operation or compensation whose declaration it differs from.';
COMMENT ON COLUMN agentq.v_effect_drift.drift IS 'undeclared: planned and not declared; missing: declared and not done.';
COMMENT ON COLUMN agentq.v_effect_drift.effect_type IS 'The type of the effect.';
COMMENT ON COLUMN agentq.v_effect_drift.job_id IS 'The job.';
COMMENT ON COLUMN agentq.v_effect_drift.job_kind IS 'Its kind; NULL: it has been removed.';
COMMENT ON COLUMN agentq.v_effect_drift.compensates IS 'The effect that the job compensates.';
COMMENT ON COLUMN agentq.v_effect_drift.mission_id IS 'The mission, if there is one.';
COMMENT ON COLUMN agentq.v_effect_drift.manifest_version IS 'The version of the catalog that was in force.';

SELECT pg_catalog.pg_extension_config_dump('agentq.effect_manifest', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.effect_operation', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.effect_compensation', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.effect_type', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.effect_seq', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.effect', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.effect_chain', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.effect_drift', '');

-- The rules in force, each with all its versions; and the reactions that they call for.
CREATE TABLE agentq.policy (
    key        text NOT NULL,
    value      jsonb NOT NULL,
    version    integer NOT NULL,
    updated_at timestamptz NOT NULL,
    updated_by text NOT NULL,
    CONSTRAINT policy_pkey PRIMARY KEY (key),
    CONSTRAINT policy_key_check CHECK (btrim(key) <> ''),
    CONSTRAINT policy_version_check CHECK (version >= 1),
    CONSTRAINT policy_value_check CHECK (agentq.fn_policy_accepts(key, value))
);
COMMENT ON TABLE agentq.policy IS 'The policies that somebody has set, in their last version. Read with fn_policy_get, which also knows the defaults; change with fn_policy_set.';
COMMENT ON COLUMN agentq.policy.key IS 'Name of the policy. reaction_matrix, auto_approve, proposal_caps, worker_policy and agent_roles are agentq''s own and have a shape.';
COMMENT ON COLUMN agentq.policy.value IS 'What it says.';
COMMENT ON COLUMN agentq.policy.version IS 'Counts its changes, from 1. What holds without a row is version 0.';
COMMENT ON COLUMN agentq.policy.updated_at IS 'When it was last changed.';
COMMENT ON COLUMN agentq.policy.updated_by IS 'The role that changed it.';

CREATE TABLE agentq.policy_version (
    key     text NOT NULL,
    version integer NOT NULL,
    value   jsonb NOT NULL,
    reason  text,
    set_at  timestamptz NOT NULL,
    set_by  text NOT NULL,
    CONSTRAINT policy_version_pkey PRIMARY KEY (key, version),
    CONSTRAINT policy_version_version_check CHECK (version >= 1)
);
COMMENT ON TABLE agentq.policy_version IS 'Every version of every policy. Rows are added, never changed or removed.';
COMMENT ON COLUMN agentq.policy_version.key IS 'Name of the policy.';
COMMENT ON COLUMN agentq.policy_version.version IS 'Which version.';
COMMENT ON COLUMN agentq.policy_version.value IS 'What it said.';
COMMENT ON COLUMN agentq.policy_version.reason IS 'Why it was changed.';
COMMENT ON COLUMN agentq.policy_version.set_at IS 'When.';
COMMENT ON COLUMN agentq.policy_version.set_by IS 'By which role.';

CREATE FUNCTION agentq.fn_policy_version_keep() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the versions of a policy are never changed or removed'
        USING ERRCODE = 'restrict_violation', HINT = 'Set the policy anew with agentq.fn_policy_set: that makes a new version.';
END $$;
COMMENT ON FUNCTION agentq.fn_policy_version_keep() IS 'Trigger: refuses to change or remove a version of a policy.';
CREATE TRIGGER policy_version_keep BEFORE UPDATE OR DELETE ON agentq.policy_version
    FOR EACH ROW EXECUTE FUNCTION agentq.fn_policy_version_keep();
CREATE TRIGGER policy_version_keep_all BEFORE TRUNCATE ON agentq.policy_version
    FOR EACH STATEMENT EXECUTE FUNCTION agentq.fn_policy_version_keep();
COMMENT ON TRIGGER policy_version_keep ON agentq.policy_version IS 'What held once can always be looked up.';
COMMENT ON TRIGGER policy_version_keep_all ON agentq.policy_version IS 'What held once can always be looked up.';

CREATE TABLE agentq.event_cursor (
    consumer   text NOT NULL,
    seq        bigint NOT NULL DEFAULT 0,
    updated_at timestamptz NOT NULL,
    CONSTRAINT event_cursor_pkey PRIMARY KEY (consumer),
    CONSTRAINT event_cursor_seq_check CHECK (seq >= 0)
) WITH (fillfactor = 50);
COMMENT ON TABLE agentq.event_cursor IS 'How far each consumer has read the log of events. Moved in the transaction that does what the events call for.';
COMMENT ON COLUMN agentq.event_cursor.consumer IS 'Who reads: react is the chore of that name.';
COMMENT ON COLUMN agentq.event_cursor.seq IS 'Place in the log of the last event that was read.';
COMMENT ON COLUMN agentq.event_cursor.updated_at IS 'When it was last moved.';

CREATE TABLE agentq.reaction (
    reaction_id    uuid NOT NULL,
    event_id       uuid NOT NULL,
    event_seq      bigint NOT NULL,
    pattern        text NOT NULL,
    status         text NOT NULL DEFAULT 'queued',
    payload        jsonb NOT NULL,
    reason         text,
    dedupe_key     text,
    depth          integer NOT NULL DEFAULT 1,
    matrix_version integer NOT NULL,
    command_id     uuid,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    CONSTRAINT reaction_pkey PRIMARY KEY (reaction_id),
    CONSTRAINT reaction_event_key UNIQUE (event_id, pattern),
    CONSTRAINT reaction_status_check CHECK (status IN ('queued', 'processing', 'done', 'failed', 'skipped')),
    CONSTRAINT reaction_reason_check CHECK (reason IS NOT NULL OR status NOT IN ('failed', 'skipped')),
    CONSTRAINT reaction_command_check CHECK (command_id IS NOT NULL OR status <> 'done'),
    CONSTRAINT reaction_depth_check CHECK (depth >= 1)
);
CREATE INDEX reaction_queued_idx ON agentq.reaction (created_at, reaction_id) WHERE status = 'queued';
CREATE UNIQUE INDEX reaction_dedupe_idx ON agentq.reaction (pattern, dedupe_key)
    WHERE dedupe_key IS NOT NULL AND status NOT IN ('failed', 'skipped');
CREATE INDEX reaction_created_idx ON agentq.reaction (created_at);
COMMENT ON TABLE agentq.reaction IS 'What the patterns of the policy reaction_matrix made of events: each waits to become a proposal.';
COMMENT ON COLUMN agentq.reaction.reaction_id IS 'Time-ordered id.';
COMMENT ON COLUMN agentq.reaction.event_id IS 'The event.';
COMMENT ON COLUMN agentq.reaction.event_seq IS 'Its place in the log.';
COMMENT ON COLUMN agentq.reaction.pattern IS 'Id of the pattern that it fitted.';
COMMENT ON COLUMN agentq.reaction.status IS 'queued; done: command_id is the proposal; failed or skipped: reason says why. processing is for consumers that work in several steps; agentq itself does not.';
COMMENT ON COLUMN agentq.reaction.payload IS 'The template, with the event''s values in it, and what is known of the event.';
COMMENT ON COLUMN agentq.reaction.reason IS 'Why it failed, was skipped, or made no proposal of its own.';
COMMENT ON COLUMN agentq.reaction.dedupe_key IS 'Of events with the same key only the first has a reaction of this pattern, unless that failed.';
COMMENT ON COLUMN agentq.reaction.depth IS '1 for an event from outside; one more for an event that the loop itself has caused.';
COMMENT ON COLUMN agentq.reaction.matrix_version IS 'Version of the policy reaction_matrix that was in force.';
COMMENT ON COLUMN agentq.reaction.command_id IS 'The proposal that it became.';
COMMENT ON COLUMN agentq.reaction.created_at IS 'When the event was read.';
COMMENT ON COLUMN agentq.reaction.updated_at IS 'When it last changed.';

CREATE TABLE agentq.reaction_pattern (
    pattern    text NOT NULL,
    last_at    timestamptz,
    queued     bigint NOT NULL DEFAULT 0,
    unlucky    bigint NOT NULL DEFAULT 0,
    cooling    bigint NOT NULL DEFAULT 0,
    duplicates bigint NOT NULL DEFAULT 0,
    too_deep   bigint NOT NULL DEFAULT 0,
    failed     bigint NOT NULL DEFAULT 0,
    CONSTRAINT reaction_pattern_pkey PRIMARY KEY (pattern)
) WITH (fillfactor = 50);
COMMENT ON TABLE agentq.reaction_pattern IS 'What became of the events that fitted a pattern, by their type, tags, source and data.';
COMMENT ON COLUMN agentq.reaction_pattern.pattern IS 'Id of the pattern.';
COMMENT ON COLUMN agentq.reaction_pattern.last_at IS 'When the last event happened that has a reaction; its cooldown counts from there.';
COMMENT ON COLUMN agentq.reaction_pattern.queued IS 'Events that have a reaction.';
COMMENT ON COLUMN agentq.reaction_pattern.unlucky IS 'Events that chance has left out.';
COMMENT ON COLUMN agentq.reaction_pattern.cooling IS 'Events that came too soon after another.';
COMMENT ON COLUMN agentq.reaction_pattern.duplicates IS 'Events whose dedupe key had a reaction already.';
COMMENT ON COLUMN agentq.reaction_pattern.too_deep IS 'Events that the loop itself has caused, too many times over.';
COMMENT ON COLUMN agentq.reaction_pattern.failed IS 'Events from which no template could be made.';

SELECT pg_catalog.pg_extension_config_dump('agentq.policy', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.policy_version', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.event_cursor', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.reaction', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.reaction_pattern', '');

-- Commands: governed intents. A proposal is a command that awaits its decision; a mission is what an
-- approved one starts.
CREATE TABLE agentq.command (
    command_id      uuid NOT NULL,
    dedupe_key      text NOT NULL,
    source          text NOT NULL,
    decision        text NOT NULL DEFAULT 'pending',
    state           text NOT NULL DEFAULT 'pending',
    title           text,
    risk_level      text,
    template        jsonb NOT NULL,
    reason          text,
    policy_snapshot jsonb NOT NULL DEFAULT '{}',
    requested_by    text NOT NULL,
    decided_by      text,
    decided_at      timestamptz,
    approved_at     timestamptz,
    mission_id      uuid,
    reaction_id     uuid,
    depth           integer NOT NULL DEFAULT 0,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    finished_at     timestamptz,
    CONSTRAINT command_pkey PRIMARY KEY (command_id),
    CONSTRAINT command_dedupe_key UNIQUE (dedupe_key),
    CONSTRAINT command_dedupe_check CHECK (btrim(dedupe_key) <> ''),
    CONSTRAINT command_source_check CHECK (source IN ('api', 'trigger', 'reaction', 'manual')),
    CONSTRAINT command_risk_check CHECK (risk_level IN ('low', 'medium', 'high', 'critical')),
    CONSTRAINT command_decision_check CHECK (decision IN ('pending', 'approved', 'rejected', 'auto_approved')),
    CONSTRAINT command_state_check CHECK (CASE
        WHEN decision IN ('pending', 'rejected') THEN state = decision
        ELSE state IN (decision, 'succeeded', 'failed', 'cancelled') END),
    CONSTRAINT command_decided_check CHECK ((decision = 'pending') = (decided_at IS NULL)
        AND (decision = 'pending') = (decided_by IS NULL)),
    CONSTRAINT command_approved_check CHECK ((decision IN ('approved', 'auto_approved')) = (approved_at IS NOT NULL)
        AND (decision IN ('approved', 'auto_approved')) = (mission_id IS NOT NULL)),
    CONSTRAINT command_rejected_check CHECK (decision <> 'rejected' OR reason IS NOT NULL),
    CONSTRAINT command_finished_check CHECK ((state IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
    CONSTRAINT command_depth_check CHECK (depth >= 0)
);
CREATE UNIQUE INDEX command_mission_idx ON agentq.command (mission_id) WHERE mission_id IS NOT NULL;
CREATE INDEX command_pending_idx ON agentq.command (created_at) WHERE decision = 'pending';
CREATE INDEX command_created_idx ON agentq.command (created_at);
COMMENT ON TABLE agentq.command IS 'What somebody wants done, what was decided about it, under which policies, and what came of it. v_proposal shows it as a proposal.';
COMMENT ON COLUMN agentq.command.command_id IS 'Time-ordered id; the proposal''s id.';
COMMENT ON COLUMN agentq.command.dedupe_key IS 'The same key is the same proposal, for ever.';
COMMENT ON COLUMN agentq.command.source IS 'api, trigger, reaction or manual.';
COMMENT ON COLUMN agentq.command.decision IS 'pending, approved, rejected or auto_approved. Decided once.';
COMMENT ON COLUMN agentq.command.state IS 'As the decision; then, when its mission has ended, succeeded, failed or cancelled.';
COMMENT ON COLUMN agentq.command.title IS 'Its template''s title.';
COMMENT ON COLUMN agentq.command.risk_level IS 'How risky it says it is: low, medium, high or critical. NULL: it does not say.';
COMMENT ON COLUMN agentq.command.template IS 'The mission template.';
COMMENT ON COLUMN agentq.command.reason IS 'Why it was rejected, why it needs a person, or what whoever decided said.';
COMMENT ON COLUMN agentq.command.policy_snapshot IS 'The policies that were gone by, each with its version and value.';
COMMENT ON COLUMN agentq.command.requested_by IS 'Who wants it.';
COMMENT ON COLUMN agentq.command.decided_by IS 'Who decided; policy: the rules alone.';
COMMENT ON COLUMN agentq.command.decided_at IS 'When it was decided.';
COMMENT ON COLUMN agentq.command.approved_at IS 'When it was approved.';
COMMENT ON COLUMN agentq.command.mission_id IS 'The mission that it started.';
COMMENT ON COLUMN agentq.command.reaction_id IS 'The reaction that it came from.';
COMMENT ON COLUMN agentq.command.depth IS '0 for one that no event caused; as deep as its reaction otherwise.';
COMMENT ON COLUMN agentq.command.created_at IS 'When it was made.';
COMMENT ON COLUMN agentq.command.updated_at IS 'When it last changed.';
COMMENT ON COLUMN agentq.command.finished_at IS 'When the end of its mission was noted.';

CREATE TABLE agentq.proposal_count (
    day      date NOT NULL,
    source   text NOT NULL,
    accepted bigint NOT NULL,
    CONSTRAINT proposal_count_pkey PRIMARY KEY (day, source),
    CONSTRAINT proposal_count_accepted_check CHECK (accepted >= 0)
) WITH (fillfactor = 50);
COMMENT ON TABLE agentq.proposal_count IS 'How many proposals passed the gate on a day, where there is a cap. Whoever makes one locks these rows, so that no two pass the cap together.';
COMMENT ON COLUMN agentq.proposal_count.day IS 'The day, in UTC.';
COMMENT ON COLUMN agentq.proposal_count.source IS 'The source; *: all of them.';
COMMENT ON COLUMN agentq.proposal_count.accepted IS 'How many have passed.';

CREATE VIEW agentq.v_proposal AS
SELECT command_id AS proposal_id, dedupe_key, source, decision AS status, state, title, risk_level, template, reason,
       policy_snapshot, requested_by, decided_by, decided_at, approved_at, mission_id, reaction_id, depth, created_at, finished_at
FROM agentq.command;
COMMENT ON VIEW agentq.v_proposal IS 'Proposals: what awaits a decision, and what was decided.';
COMMENT ON COLUMN agentq.v_proposal.proposal_id IS 'Id of the proposal.';
COMMENT ON COLUMN agentq.v_proposal.dedupe_key IS 'The same key is the same proposal.';
COMMENT ON COLUMN agentq.v_proposal.source IS 'api, trigger, reaction or manual.';
COMMENT ON COLUMN agentq.v_proposal.status IS 'pending, approved, rejected or auto_approved.';
COMMENT ON COLUMN agentq.v_proposal.state IS 'The same, or how its mission ended: succeeded, failed or cancelled.';
COMMENT ON COLUMN agentq.v_proposal.title IS 'Its template''s title.';
COMMENT ON COLUMN agentq.v_proposal.risk_level IS 'How risky it says it is.';
COMMENT ON COLUMN agentq.v_proposal.template IS 'The mission template.';
COMMENT ON COLUMN agentq.v_proposal.reason IS 'Why it was rejected, why it needs a person, or what whoever decided said.';
COMMENT ON COLUMN agentq.v_proposal.policy_snapshot IS 'The policies that were gone by, each with its version and value.';
COMMENT ON COLUMN agentq.v_proposal.requested_by IS 'Who wants it.';
COMMENT ON COLUMN agentq.v_proposal.decided_by IS 'Who decided; policy: the rules alone.';
COMMENT ON COLUMN agentq.v_proposal.decided_at IS 'When it was decided.';
COMMENT ON COLUMN agentq.v_proposal.approved_at IS 'When it was approved.';
COMMENT ON COLUMN agentq.v_proposal.mission_id IS 'The mission that it started.';
COMMENT ON COLUMN agentq.v_proposal.reaction_id IS 'The reaction that it came from.';
COMMENT ON COLUMN agentq.v_proposal.depth IS 'How many times over the loop itself has caused it.';
COMMENT ON COLUMN agentq.v_proposal.created_at IS 'When it was made.';
COMMENT ON COLUMN agentq.v_proposal.finished_at IS 'When the end of its mission was noted.';

SELECT pg_catalog.pg_extension_config_dump('agentq.command', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.proposal_count', '');

CREATE OR REPLACE FUNCTION agentq.fn_job_explain(p_job_id uuid) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_now   timestamptz := agentq.fn_clock_now();
    v_job   record;
    v_lease agentq.job_lease;
    v_gates jsonb := '[]';
    v_at    timestamptz;
    v_ahead bigint;
    v_key   record;
BEGIN
    SELECT j.*, q.queue, q.paused_at, q.paused_reason, v.state, v.finished_at, b.blocked_by
    INTO v_job
    FROM agentq.job j
    JOIN agentq.queue q ON q.queue_id = j.queue_id
    JOIN agentq.job_queue v ON v.job_id = j.job_id
    LEFT JOIN agentq.job_blocked b ON b.job_id = j.job_id
    WHERE j.job_id = p_job_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no job %', coalesce(p_job_id::text, 'NULL')
            USING ERRCODE = 'no_data_found', HINT = 'It may have been purged; its dead letter, if any, is in agentq.job_dead_letter.';
    END IF;
    IF v_job.finished_at IS NOT NULL THEN
        RETURN jsonb_build_object('ok', true, 'code', 'finished', 'job_id', p_job_id, 'state', v_job.state,
            'finished_at', v_job.finished_at, 'gates', '[]'::jsonb);
    END IF;
    SELECT * INTO v_lease FROM agentq.job_lease WHERE job_id = p_job_id;
    IF FOUND THEN
        RETURN jsonb_build_object('ok', true, 'code', 'held', 'job_id', p_job_id, 'state', v_job.state,
            'lease_owner', v_lease.lease_owner, 'lease_until', v_lease.lease_until, 'held_since', v_lease.picked_at,
            'cancel_requested', v_lease.cancel_reason IS NOT NULL, 'gates', '[]'::jsonb);
    END IF;

    -- From the widest gate to the narrowest; each says what would open it.
    IF NOT agentq.fn_config_get('queue.job_substrate.enabled')::boolean THEN
        v_gates := v_gates || jsonb_build_object('gate', 'gate_closed', 'message', 'queue.job_substrate.enabled is false',
            'hint', 'Open it with fn_config_set.');
    END IF;
    IF v_job.paused_at IS NOT NULL THEN
        v_gates := v_gates || jsonb_build_object('gate', 'paused', 'message', format('the queue %s is paused', v_job.queue),
            'since', v_job.paused_at, 'reason', v_job.paused_reason, 'hint', 'Resume it with fn_queue_resume.');
    END IF;
    IF v_job.parked IS NOT NULL THEN
        v_gates := v_gates || jsonb_build_object('gate', 'parked', 'message', 'nobody knows what became of its last attempt',
            'hint', 'Find out, and say so with fn_job_reconcile.');
    ELSIF v_job.scheduled_at > v_now AND v_job.state = 'queued' AND (v_job.waits_for->>'at')::timestamptz = v_job.scheduled_at THEN
        v_at := nullif(v_job.scheduled_at, 'infinity');
        v_gates := v_gates || jsonb_build_array(v_job.waits_for - 'at' || jsonb_build_object('until', v_at));
    ELSIF v_job.scheduled_at > v_now AND v_job.state = 'retry_waiting' THEN
        v_at := v_job.scheduled_at;
        v_gates := v_gates || jsonb_build_object('gate', 'retry', 'message',
            format('attempt %s failed, and the next waits', v_job.attempts), 'until', v_at, 'error', left(v_job.last_error, 500));
    ELSIF v_job.scheduled_at > v_now THEN
        v_at := v_job.scheduled_at;
        v_gates := v_gates || jsonb_build_object('gate', 'schedule', 'message', 'its time has not come', 'until', v_at);
    END IF;
    IF v_job.blocked_by LIKE 'order:%' THEN
        v_gates := v_gates || (
            SELECT jsonb_build_object('gate', 'ordering_key', 'message',
                format('another job with the ordering key %s comes first', v_job.ordering_key),
                'ordering_key', v_job.ordering_key, 'ahead', h.job_id, 'ahead_state', h.state, 'ahead_until', h.lease_until,
                'hint', 'It runs when that job has finished.')
            FROM agentq.job_order o JOIN agentq.job_queue h ON h.job_id = o.job_id
            WHERE o.queue_id = v_job.queue_id AND o.ordering_key = v_job.ordering_key);
    END IF;
    v_gates := v_gates || coalesce((
        SELECT jsonb_agg(jsonb_build_object('gate', 'limit', 'message',
                format('all %s slots of %s are taken', greatest(r.max_concurrent - r.taken_by_hand, 0), k.key),
                'limit_key', k.key, 'max_concurrent', r.max_concurrent, 'taken_by_hand', r.taken_by_hand, 'active', h.active,
                'held_by', h.held_by, 'until', h.until, 'hint', 'It runs when one of them ends, or when fn_limit_set raises the limit.')
            ORDER BY k.key)
        FROM (SELECT 'global' AS key UNION ALL SELECT 'queue:' || v_job.queue UNION ALL SELECT 'kind:' || v_job.job_kind
              UNION ALL SELECT unnest(v_job.limit_keys)) k
        JOIN agentq.limit_rule r ON r.limit_key = agentq.fn_limit_rule_of(k.key) AND r.max_concurrent IS NOT NULL
        CROSS JOIN LATERAL (
            SELECT count(*) AS active, min(l.lease_until) AS until,
                   (SELECT jsonb_agg(jsonb_build_object('job_id', t.job_id, 'lease_owner', t.lease_owner, 'lease_until', t.lease_until))
                    FROM (SELECT * FROM agentq.job_lease t WHERE k.key = ANY (t.limits) ORDER BY t.lease_until LIMIT 10) t) AS held_by
            FROM agentq.job_lease l WHERE k.key = ANY (l.limits)) h
        WHERE h.active >= greatest(r.max_concurrent - r.taken_by_hand, 0)), '[]');
    -- A rate, or what the other side said; and budgets.
    FOR v_key IN
        SELECT k.key, k.weight, g.gauge
        FROM (SELECT 'global' AS key, 1 AS weight UNION ALL SELECT 'queue:' || v_job.queue, 1 UNION ALL SELECT 'kind:' || v_job.job_kind, 1
              UNION ALL SELECT u.key, coalesce(u.weight, 1) FROM unnest(v_job.limit_keys, v_job.limit_weights) AS u (key, weight)) k
        CROSS JOIN LATERAL (SELECT agentq.fn_limit_gauge(k.key, k.weight) AS gauge) g
        WHERE NOT (g.gauge->>'open')::boolean
        ORDER BY k.key
    LOOP
        v_at := greatest(v_at, (v_key.gauge->>'opens_at')::timestamptz);
        v_gates := v_gates || jsonb_build_object('gate', 'rate', 'message', format('the rate of %s is used up, or its other side has closed', v_key.key),
            'limit_key', v_key.key, 'weight', v_key.weight, 'left', v_key.gauge->'left', 'until', v_key.gauge->'opens_at',
            'hint', 'It opens by itself; fn_limit_set changes the rate, fn_limit_report what the other side said.');
    END LOOP;
    FOR v_key IN
        SELECT b.*, coalesce((v_job.cost->>b.unit)::numeric, 0) AS cost FROM agentq.v_budget b
        WHERE b.is_current AND b.rule IS NOT NULL
          AND b.limit_key = ANY (ARRAY['global', 'queue:' || v_job.queue, 'kind:' || v_job.job_kind] || v_job.limit_keys)
          AND b.remaining < greatest(coalesce((v_job.cost->>b.unit)::numeric, 0), 0.000001)
        ORDER BY b.limit_key, b.unit
    LOOP
        v_at := greatest(v_at, v_key.ends_at);
        v_gates := v_gates || jsonb_build_object('gate', 'budget', 'message', format('the budget of %s %s has %s %s left, and the job costs %s',
                v_key.limit_key, CASE WHEN v_key.period = 'total' THEN 'in all' ELSE 'for each ' || v_key.period END, v_key.remaining, v_key.unit, v_key.cost),
            'limit_key', v_key.limit_key, 'unit', v_key.unit, 'period', v_key.period, 'amount', v_key.amount, 'used', v_key.used,
            'reserved', v_key.reserved, 'cost', v_key.cost, 'until', v_key.ends_at,
            'hint', 'It runs in the next period, when a job gives back what it had reserved, or when fn_budget_set raises the budget.');
    END LOOP;
    IF v_job.requires IS NOT NULL AND NOT EXISTS (SELECT FROM agentq.fn_capable_workers(v_job.requires)) THEN
        v_gates := v_gates || jsonb_build_object('gate', 'capability', 'message',
            format('no worker that is alive has announced all of %s', array_to_string(v_job.requires, ', ')),
            'requires', to_jsonb(v_job.requires),
            'hint', 'Start one, and let its heartbeat announce them in the metadata: {"capabilities": [...]}.');
    END IF;
    IF least(v_job.finish_by, CASE WHEN v_job.picked_at IS NULL THEN v_job.start_by END) <= v_now THEN
        v_gates := v_gates || jsonb_build_object('gate', 'deadline', 'message', 'it has missed its deadline and will be given up',
            'start_by', v_job.start_by, 'finish_by', v_job.finish_by);
    END IF;
    -- Nothing but other jobs. Counted up to a bound, so that a long queue does not make this slow.
    IF v_gates = '[]' THEN
        SELECT count(*) INTO v_ahead FROM (
            SELECT FROM agentq.job_ready r
            WHERE v_job.blocked_by IS NULL AND r.any_queue_id = v_job.queue_id
              AND (r.priority, r.scheduled_at, r.job_id) < (v_job.priority, v_job.scheduled_at, p_job_id)
            UNION ALL
            SELECT FROM agentq.job_blocked r
            WHERE r.blocked_by = v_job.blocked_by AND r.any_queue_id = v_job.queue_id
              AND (r.priority, r.scheduled_at, r.job_id) < (v_job.priority, v_job.scheduled_at, p_job_id)
            LIMIT 1000) a;
        IF NOT EXISTS (SELECT FROM agentq.job_lease) AND NOT EXISTS (
            SELECT FROM agentq.queue_heartbeat h WHERE v_now - h.last_tick_at
                <= make_interval(secs => agentq.fn_config_get('queue.heartbeat.stale_threshold_seconds')::integer)) THEN
            v_gates := v_gates || jsonb_build_object('gate', 'no_worker', 'message', 'no job is held and no executor has given a sign of life',
                'hint', 'Start a worker that claims from this queue.');
        END IF;
    END IF;
    RETURN jsonb_build_object('ok', true, 'code', CASE WHEN v_gates = '[]' THEN 'ready' ELSE 'waiting' END,
        'job_id', p_job_id, 'state', v_job.state, 'queue', v_job.queue, 'gates', v_gates,
        'may_run_at', CASE WHEN v_gates = '[]' THEN v_now ELSE v_at END, 'ahead', v_ahead);
END $$;

-- The events room.
COMMENT ON FUNCTION agentq.fn_event_emit IS 'Writes an event: what happened, to what, and what else is to be known. With a dedupe_key in p_options it is written once.';
COMMENT ON FUNCTION agentq.fn_event_read IS 'The events after a place in the log, in order; with p_wait it waits for the next. Go on with next_after.';
COMMENT ON FUNCTION agentq.fn_event_verify IS 'Checks the log and its events: the first row that was altered, removed, put in or moved.';

-- The flow room: steps, actions, signals.
COMMENT ON FUNCTION agentq.fn_step_begin IS 'Begins a step of a held job by name: run it, or done with the result of the run that completed it, or unknown_outcome. p_options: index or repeat for loops, ordered, idempotent.';
COMMENT ON FUNCTION agentq.fn_step_complete IS 'Stores the result of a step that this attempt has begun: it is not run again.';
COMMENT ON FUNCTION agentq.fn_step_fail IS 'Says that a step was not done, and why: it runs again when it is begun again.';
COMMENT ON FUNCTION agentq.fn_step_resolve IS 'Says what became of a step whose outcome is unknown: done, with its result, or not_done. Without p_lease_owner for a job that nobody holds.';
COMMENT ON FUNCTION agentq.fn_action_begin IS 'Begins an action that must happen once: won, done with its result, or in_progress by whom until when. p_options: lease_seconds, ttl, job_id with lease_token.';
COMMENT ON FUNCTION agentq.fn_action_finish IS 'Stores the result of an action that this holder has won; it is kept for 7 days, or the ttl it was begun with.';
COMMENT ON FUNCTION agentq.fn_action_fail IS 'Says that an action was not done, and why: the next to begin it wins.';
COMMENT ON FUNCTION agentq.fn_action_key IS 'A key for an action: the hash of a job, the name of a step and inputs.';
COMMENT ON FUNCTION agentq.fn_checkpoint_save IS 'Saves the checkpoint of a held job, in place of the one before, without extending its lease.';
COMMENT ON FUNCTION agentq.fn_checkpoint_load IS 'The last checkpoint of a job, and when it was saved.';
COMMENT ON FUNCTION agentq.fn_job_sleep IS 'Puts a held job to sleep until a time and frees its worker; the attempt that comes after is told that it woke. Costs no attempt.';
COMMENT ON FUNCTION agentq.fn_signal_send IS 'Sends a signal: to the job that has waited longest for its name and key, or to the next that will. p_options: dedupe_key, ttl in seconds.';
COMMENT ON FUNCTION agentq.fn_signal_wait IS 'Waits for a signal: received with its payload, timed_out, or waiting: the job sleeps until it comes. p_options: step, index or repeat, ordered, wait_seconds in the server.';

-- The flow room: missions.
COMMENT ON FUNCTION agentq.fn_mission_start IS 'Starts a mission from a JSON template. p_options: title, idempotency_key, source, correlation_id, trace_id, input, paused, timeout_seconds.';
COMMENT ON FUNCTION agentq.fn_mission_cancel IS 'Cancels a mission: steps that run finish, others never begin. p_mode: graceful, or compensate_then_stop.';
COMMENT ON FUNCTION agentq.fn_mission_pause IS 'Pauses a mission: no further step becomes a job; those that are jobs go on.';
COMMENT ON FUNCTION agentq.fn_mission_resume IS 'Lets a paused mission go on, and begins one that was started paused.';
COMMENT ON FUNCTION agentq.fn_mission_fork IS 'Runs a mission anew from one of its steps on, as a new mission; what comes before keeps its results. p_options: title, params by step.';
COMMENT ON FUNCTION agentq.fn_mission_get IS 'A mission and its steps, up to a thousand.';
COMMENT ON FUNCTION agentq.fn_mission_explain IS 'What a mission waits for: for each open step its job and what holds that, or the steps it waits for.';
COMMENT ON FUNCTION agentq.fn_mission_graph IS 'A mission as text for mermaid or graphviz, with the states as colours.';

-- The flow room: effects.
COMMENT ON FUNCTION agentq.fn_effect_manifest_set IS 'Sets operations, compensations, inverses and idempotent types of effects, all or none, and checks the whole catalog; a null takes an entry out, p_replace everything that is not named.';
COMMENT ON FUNCTION agentq.fn_effect_manifest_check IS 'What is wrong with the catalog, or would be with p_manifest set: faults with path, chain and hint. Changes nothing.';
COMMENT ON FUNCTION agentq.fn_effect_operation_set IS 'Sets one operation: what its jobs change outside, and whether that must be compensated.';
COMMENT ON FUNCTION agentq.fn_effect_operation_remove IS 'Takes an operation out of the catalog.';
COMMENT ON FUNCTION agentq.fn_effect_compensation_set IS 'Sets one compensation: of which operation, what it changes itself, and which jobs carry it out.';
COMMENT ON FUNCTION agentq.fn_effect_compensation_remove IS 'Takes a compensation out of the catalog.';
COMMENT ON FUNCTION agentq.fn_effect_plan IS 'Writes effects of a held job down before they are done, in order; a later attempt finds them by their keys.';
COMMENT ON FUNCTION agentq.fn_effect_begin IS 'Asks whether to carry out an effect: run, done with its result, in_progress, unknown_outcome or undone.';
COMMENT ON FUNCTION agentq.fn_effect_finish IS 'Ends an effect with success, and keeps its result.';
COMMENT ON FUNCTION agentq.fn_effect_fail IS 'Ends an effect that did not happen; it may be begun again.';
COMMENT ON FUNCTION agentq.fn_effect_reconcile IS 'Says what became of an effect whose outcome was unknown: done or not_done.';
COMMENT ON FUNCTION agentq.fn_effect_get IS 'An effect, with its payload and result.';
COMMENT ON FUNCTION agentq.fn_effect_compensate IS 'Compensates the succeeded effects of a finished job or mission, in reverse order, each by a job of its own.';

-- The governance room.
COMMENT ON FUNCTION agentq.fn_policy_accepts IS 'Whether a policy may have a value: those of agentq have a shape, others may hold what they like.';
COMMENT ON FUNCTION agentq.fn_policy_set IS 'Sets a policy: a new version, kept for good, and an audit event. A value that does not have the policy''s shape is refused with the path of what is wrong.';
COMMENT ON FUNCTION agentq.fn_policy_get IS 'A policy in force, or one of its versions. Version 0 is the default of a policy that nobody has set.';
COMMENT ON FUNCTION agentq.fn_policy_history IS 'The versions of a policy, the newest first: what it said, since when, by whom and why.';
COMMENT ON FUNCTION agentq.fn_proposal_create IS 'Proposes a mission: gated, and approved at once or left for a person, with the policies that were gone by. The same key is the same proposal.';
COMMENT ON FUNCTION agentq.fn_proposal_gate IS 'What the gate would say of a proposal now: caps per day and source, number of steps, and the policy''s hook. Counts nothing.';
COMMENT ON FUNCTION agentq.fn_proposal_is_auto_approvable IS 'Whether a proposal needs no person, by the kinds of its steps, its risk and its source.';
COMMENT ON FUNCTION agentq.fn_template_step_kinds IS 'Every kind of work that a mission template asks for, also in missions within steps.';
COMMENT ON FUNCTION agentq.fn_proposal_approve IS 'Approves a pending proposal and starts its mission.';
COMMENT ON FUNCTION agentq.fn_proposal_reject IS 'Rejects a pending proposal, with the reason.';
COMMENT ON FUNCTION agentq.fn_proposal_get IS 'Everything known of one proposal.';
COMMENT ON FUNCTION agentq.fn_ops_tick IS 'One turn of the loop by hand: recovers leases, reads events, makes proposals. For servers without the engine.';

INSERT INTO agentq.config (key, value, description)
SELECT key, value, description FROM agentq.fn_config_defaults() d
WHERE NOT EXISTS (SELECT FROM agentq.config c WHERE c.key = d.key);
INSERT INTO agentq.engine_chore (chore, every_seconds, about)
SELECT chore, every_seconds, about FROM agentq.fn_engine_chore_defaults() d
WHERE NOT EXISTS (SELECT FROM agentq.engine_chore c WHERE c.chore = d.chore);
UPDATE agentq.engine_chore c SET about = d.about FROM agentq.fn_engine_chore_defaults() d WHERE d.chore = c.chore AND d.about <> c.about;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA agentq FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA agentq FROM PUBLIC;

-- The events room.
INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'EXECUTE', object
FROM (VALUES
    ('producer', ARRAY['fn_event_emit']),
    ('worker', ARRAY['fn_event_emit', 'fn_event_read']),
    ('reader', ARRAY['fn_event_read', 'fn_event_verify']),
    ('operator', ARRAY['fn_event_emit', 'fn_event_read', 'fn_event_verify'])
) AS l(level, objects)
CROSS JOIN LATERAL unnest(l.objects) AS object;
INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'SELECT', object
FROM unnest(ARRAY['reader', 'operator']) AS level
CROSS JOIN unnest(ARRAY['event_log', 'event_chain', 'v_event_partition']) AS object;

-- The flow room: steps, actions, signals.
INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'EXECUTE', object
FROM (VALUES
    ('producer', ARRAY['fn_signal_send', 'fn_action_key']),
    ('worker', ARRAY['fn_step_begin', 'fn_step_complete', 'fn_step_fail', 'fn_step_resolve', 'fn_action_begin', 'fn_action_finish',
        'fn_action_fail', 'fn_action_key', 'fn_checkpoint_save', 'fn_checkpoint_load', 'fn_job_sleep', 'fn_signal_wait',
        'fn_signal_send']),
    ('reader', ARRAY['fn_checkpoint_load', 'fn_action_key']),
    ('operator', ARRAY['fn_step_begin', 'fn_step_complete', 'fn_step_fail', 'fn_step_resolve', 'fn_action_begin',
        'fn_action_finish', 'fn_action_fail', 'fn_action_key', 'fn_checkpoint_save', 'fn_checkpoint_load', 'fn_job_sleep',
        'fn_signal_wait', 'fn_signal_send'])
) AS l(level, objects)
CROSS JOIN LATERAL unnest(l.objects) AS object;
INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'SELECT', object
FROM unnest(ARRAY['reader', 'operator']) AS level
CROSS JOIN unnest(ARRAY['v_job_step', 'action', 'signal', 'signal_wait']) AS object;

-- The flow room: missions.
INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'EXECUTE', object
FROM (VALUES
    ('producer', ARRAY['fn_mission_start', 'fn_mission_get', 'fn_mission_explain', 'fn_mission_graph']),
    ('worker', ARRAY['fn_mission_get', 'fn_mission_explain', 'fn_mission_graph']),
    ('reader', ARRAY['fn_mission_get', 'fn_mission_explain', 'fn_mission_graph']),
    ('operator', ARRAY['fn_mission_start', 'fn_mission_get', 'fn_mission_explain', 'fn_mission_graph', 'fn_mission_cancel',
        'fn_mission_pause', 'fn_mission_resume', 'fn_mission_fork'])
) AS l(level, objects)
CROSS JOIN LATERAL unnest(l.objects) AS object;

INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'SELECT', object
FROM unnest(ARRAY['reader', 'operator']) AS level
CROSS JOIN unnest(ARRAY['mission', 'v_mission', 'v_mission_step', 'v_action_run', 'mission_item']) AS object;

-- The flow room: effects.
INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'EXECUTE', object
FROM (VALUES
    ('worker', ARRAY['fn_effect_plan', 'fn_effect_begin', 'fn_effect_finish', 'fn_effect_fail', 'fn_effect_get']),
    ('reader', ARRAY['fn_effect_get', 'fn_effect_manifest_check']),
    ('operator', ARRAY['fn_effect_plan', 'fn_effect_begin', 'fn_effect_finish', 'fn_effect_fail', 'fn_effect_get',
        'fn_effect_reconcile', 'fn_effect_compensate', 'fn_effect_manifest_set', 'fn_effect_manifest_check',
        'fn_effect_operation_set', 'fn_effect_operation_remove', 'fn_effect_compensation_set', 'fn_effect_compensation_remove'])
) AS l(level, objects)
CROSS JOIN LATERAL unnest(l.objects) AS object;
INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'SELECT', object
FROM unnest(ARRAY['reader', 'operator']) AS level
CROSS JOIN unnest(ARRAY['v_effect', 'v_effect_drift', 'effect_chain', 'effect_manifest', 'effect_operation', 'effect_compensation',
    'effect_type']) AS object;

-- The governance room.
INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'EXECUTE', object
FROM (VALUES
    ('producer', ARRAY['fn_proposal_create', 'fn_proposal_gate', 'fn_proposal_get', 'fn_proposal_is_auto_approvable',
        'fn_template_step_kinds']),
    ('worker', ARRAY['fn_policy_get']),
    ('reader', ARRAY['fn_policy_get', 'fn_policy_history', 'fn_proposal_get', 'fn_proposal_is_auto_approvable',
        'fn_template_step_kinds']),
    ('operator', ARRAY['fn_policy_get', 'fn_policy_history', 'fn_policy_set', 'fn_proposal_create', 'fn_proposal_gate',
        'fn_proposal_get', 'fn_proposal_is_auto_approvable', 'fn_proposal_approve', 'fn_proposal_reject',
        'fn_template_step_kinds', 'fn_ops_tick'])
) AS l(level, objects)
CROSS JOIN LATERAL unnest(l.objects) AS object;

INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'SELECT', object
FROM unnest(ARRAY['reader', 'operator']) AS level
CROSS JOIN unnest(ARRAY['policy', 'policy_version', 'event_cursor', 'reaction', 'reaction_pattern', 'command', 'v_proposal']) AS object;
-- Roles that have a level get what it has gained.
UPDATE agentq.access_grant SET granted_at = granted_at;
