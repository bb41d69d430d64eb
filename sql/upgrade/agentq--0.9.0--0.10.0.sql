-- From 0.9.0 to 0.10.0: only what changes. What is whole and new is included from its file.

-- Who acts: levels that propose or act for others, and tokens.
ALTER TABLE agentq.access_rule DROP CONSTRAINT access_rule_level_check,
    ADD CONSTRAINT access_rule_level_check CHECK (level IN ('producer', 'proposer', 'worker', 'operator', 'reader', 'delegate'));
ALTER TABLE agentq.access_grant DROP CONSTRAINT access_grant_level_check,
    ADD CONSTRAINT access_grant_level_check CHECK (level IN ('producer', 'proposer', 'worker', 'operator', 'reader', 'delegate'));
COMMENT ON COLUMN agentq.access_rule.level IS 'producer, proposer, worker, operator, reader or delegate.';
-- include: sql/base/identity.sql
CREATE FUNCTION agentq.fn_act_as(p_token text) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_act_as_wrapper';
COMMENT ON FUNCTION agentq.fn_act_as IS 'Says for whom this transaction acts, by a token: what is called in it afterwards is done by the role of the token, and only if that may. For logins with the level delegate.';
CREATE FUNCTION agentq.fn_whoami() RETURNS jsonb
STRICT
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_whoami_wrapper';
COMMENT ON FUNCTION agentq.fn_whoami IS 'Who acts in this transaction, with whose rights and levels, and by which token.';
CREATE FUNCTION agentq.fn_token_issue(p_kind text, p_options jsonb DEFAULT NULL) RETURNS jsonb
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_token_issue_wrapper';
COMMENT ON FUNCTION agentq.fn_token_issue IS 'Issues a token of the kind console, api or mcp, with which others can act for your role. It is in this answer alone.';
CREATE FUNCTION agentq.fn_token_revoke(p_token_id uuid, p_reason text DEFAULT NULL) RETURNS jsonb
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_token_revoke_wrapper';
COMMENT ON FUNCTION agentq.fn_token_revoke IS 'Ends a token of your role, and those that were issued with it; operators end any.';
CREATE FUNCTION agentq.fn_token_list(p_options jsonb DEFAULT NULL) RETURNS jsonb
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_token_list_wrapper';
COMMENT ON FUNCTION agentq.fn_token_list IS 'The tokens of your role, the newest first; operators see all. Options: ended, after, limit.';
CREATE FUNCTION agentq_internal.fn_actor() RETURNS text
STABLE STRICT
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_actor_wrapper';
COMMENT ON FUNCTION agentq_internal.fn_actor IS 'Who acts, by name.';
CREATE FUNCTION agentq_internal.fn_role_that_sees() RETURNS oid
STABLE STRICT
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_role_that_sees_wrapper';
COMMENT ON FUNCTION agentq_internal.fn_role_that_sees IS 'The role that decides what the caller sees. NULL: nobody''s.';
SELECT agentq_internal.fn_access_allow('EXECUTE', '{producer, proposer, worker, reader, operator}', '{fn_whoami, fn_token_issue, fn_token_revoke, fn_token_list}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{delegate}', '{fn_act_as}');

ALTER TABLE agentq_internal.job_lease
    ADD COLUMN lease_seconds integer,
    ADD COLUMN heartbeat_at timestamptz,
    ADD COLUMN stall_seconds integer,
    ADD COLUMN run jsonb;
COMMENT ON COLUMN agentq_internal.job_lease.run IS 'What its holder says of its run: run_id and meta.';
ALTER TABLE agentq_internal.job_done ADD COLUMN run jsonb;
COMMENT ON COLUMN agentq_internal.job_done.run IS 'What the worker said of its run: run_id and meta.';
ALTER TABLE agentq_internal.job_attempt_log ADD COLUMN error_detail text, ADD COLUMN run jsonb;
COMMENT ON COLUMN agentq_internal.job_attempt_log.error_detail IS 'What else is to be known of its error, such as a stack.';
COMMENT ON COLUMN agentq_internal.job_attempt_log.run IS 'What its worker said of its run: run_id and meta.';
COMMENT ON COLUMN agentq_internal.job_lease.lease_seconds IS 'How long the lease was asked to be; NULL: as long as its queue, or the setting, says.';
COMMENT ON COLUMN agentq_internal.job_lease.heartbeat_at IS 'When its holder last extended it.';
COMMENT ON COLUMN agentq_internal.job_lease.stall_seconds IS 'As in job.';
COMMENT ON COLUMN agentq_internal.job_order.job_id IS 'The first of its unfinished jobs; or the last that has finished, while the key is in job_order_due.';
ALTER TABLE agentq_internal.job ADD COLUMN stall_seconds integer;
COMMENT ON COLUMN agentq_internal.job.stall_seconds IS 'A holder that makes no progress for this long loses it; NULL: nobody looks.';

COMMENT ON COLUMN agentq.config.updated_at IS 'When its value was last changed.';
COMMENT ON COLUMN agentq.config.updated_by IS 'Who last changed its value.';

INSERT INTO agentq.error_class (error_class, retryable, aliases, description, built_in)
SELECT error_class, retryable, aliases, description, true FROM agentq_internal.fn_error_class_defaults()
WHERE error_class = 'stalled' AND NOT EXISTS (SELECT FROM agentq.error_class WHERE error_class = 'stalled');

ALTER TABLE agentq_internal.effect
    DROP CONSTRAINT effect_status_check,
    ADD CONSTRAINT effect_status_check CHECK (status IN ('planned', 'executing', 'succeeded', 'failed', 'compensating', 'compensated', 'compensation_failed', 'compensation_skipped'));
COMMENT ON COLUMN agentq_internal.effect.status IS 'planned, executing, succeeded, failed, compensating, compensated, compensation_failed or compensation_skipped.';
COMMENT ON COLUMN agentq.v_effect.status IS 'planned, executing, succeeded, failed, compensating, compensated, compensation_failed or compensation_skipped.';
COMMENT ON COLUMN agentq_internal.effect.mission_id IS 'The mission that answers for it: that of its job, or the fork that has taken over its step.';
COMMENT ON COLUMN agentq_internal.effect.step_id IS 'The step in that mission.';
CREATE INDEX effect_chain_mission_idx ON agentq.effect_chain (mission_id, started_at) WHERE mission_id IS NOT NULL;

CREATE FUNCTION agentq.fn_effect_skip(p_effect_id uuid, p_reason text, p_by text DEFAULT NULL) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_effect_skip_wrapper';
COMMENT ON FUNCTION agentq.fn_effect_skip IS 'Decides, with a reason, that an effect stays as it is and no compensation of it is tried.';
REVOKE ALL ON FUNCTION agentq.fn_effect_skip FROM PUBLIC;
SELECT agentq_internal.fn_access_allow('EXECUTE', '{operator}', '{fn_effect_skip}');

ALTER VIEW agentq.v_job_queue_backlog RENAME COLUMN max_attempts TO most_attempts;
ALTER VIEW agentq.v_job_dead_letter_summary RENAME COLUMN max_attempts TO most_attempts;

CREATE OR REPLACE FUNCTION agentq.fn_limit_preset() RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
STRICT
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_limit_preset_wrapper';
COMMENT ON FUNCTION agentq.fn_limit_preset IS 'Sets limits that suit a fleet of agents, where there are none yet: 200 jobs at once, 10 for each venture, 20 for each stage, 5, 10 and 1 for each CEO handler, VP handler and crew executor.';

-- Events. The first form of the digests ends before these columns, so that what was written stays as it was.
ALTER TABLE agentq.event
    ALTER COLUMN correlation_id TYPE text,
    ADD COLUMN origin text,
    ADD COLUMN actor text,
    ADD COLUMN target_type text,
    ADD COLUMN target_id text,
    ADD COLUMN command_id uuid,
    ADD COLUMN agent_run_id uuid,
    ADD COLUMN swarm_run_id uuid,
    ADD COLUMN step_index integer,
    ADD COLUMN tool_name text,
    ADD COLUMN latency_ms integer,
    ADD COLUMN token_usage jsonb,
    ADD COLUMN cost_units numeric,
    ADD CONSTRAINT event_origin_check CHECK (origin IN ('agentq', 'caller'));
ALTER TABLE agentq.event
    ALTER COLUMN origin SET DEFAULT 'caller',
    ALTER COLUMN actor SET DEFAULT session_user;
ALTER TABLE agentq.event_log ADD COLUMN form smallint NOT NULL DEFAULT 1;
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
COMMENT ON COLUMN agentq.event_log.form IS 'The form in which the digest was made: 1 by 0.9.0, 2 since then.';
-- include: sql/events/event_index.sql
-- include: sql/events/origin.sql
-- include: sql/events/partition.sql
DO $$
DECLARE
    v_part record;
BEGIN
    FOR v_part IN SELECT partition FROM agentq.v_event_partition WHERE holds = 'event' AND lower IS NOT NULL LOOP
        PERFORM agentq_internal.fn_event_index(v_part.partition);
    END LOOP;
    -- The partitions that come with the extension say what the columns of their parents are.
    FOR v_part IN
        SELECT p.part, a.attname, d.description
        FROM (VALUES ('event', 'event_usual'), ('event', 'event_audit'), ('event', 'event_usual_rest'), ('event', 'event_audit_rest'),
                     ('event_log', 'event_log_usual'), ('event_log', 'event_log_audit')) AS p(whole, part)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = ('agentq.' || p.whole)::regclass AND a.attnum > 0 AND NOT a.attisdropped
        JOIN pg_catalog.pg_description d ON d.objoid = a.attrelid AND d.classoid = 'pg_class'::regclass AND d.objsubid = a.attnum
    LOOP
        EXECUTE format('COMMENT ON COLUMN agentq_internal.%I.%I IS %L', v_part.part, v_part.attname, v_part.description);
    END LOOP;
END $$;

ALTER TABLE agentq_internal.job ADD COLUMN context jsonb, ADD COLUMN retry jsonb, ADD COLUMN enqueued_by text COLLATE "C";
COMMENT ON COLUMN agentq_internal.job.enqueued_by IS 'The role that enqueued it, if actor is another name; NULL: actor is that role.';
COMMENT ON COLUMN agentq_internal.job.retry IS 'How it is tried again, as far as that is not what its kind, its queue or the default say; NULL: all of it is.';
COMMENT ON COLUMN agentq_internal.job.context IS 'What it belongs to: trace_id, traceparent, correlation_id, mission_id, command_id, agent_run_id, swarm_run_id. Its worker gets it, and so does every event about it; NULL: nothing.';
ALTER VIEW agentq.job_attempt RENAME COLUMN lease_token TO attempt_id;
ALTER VIEW agentq.v_job_step RENAME COLUMN lease_token TO attempt_id;
-- include: sql/queue/job_queue_view.sql
-- include: sql/queue/sight.sql
-- include: sql/flow/step_view.sql
-- include: sql/queue/limit_view.sql
-- include: sql/queue/job_order_due.sql
-- include: sql/queue/verify.sql
-- include: sql/queue/job_explain.sql

ALTER TABLE agentq.mission ADD COLUMN updated_at timestamptz, ADD COLUMN traceparent text, ADD COLUMN outcome text, ADD COLUMN finally_of uuid,
    ADD COLUMN parent_item integer, ADD COLUMN paused_with uuid,
    DROP CONSTRAINT mission_status_check,
    ADD CONSTRAINT mission_status_check CHECK (status IN
        ('approved', 'running', 'cancelling', 'compensating', 'finishing', 'succeeded', 'failed', 'cancelled')),
    ADD CONSTRAINT mission_outcome_check CHECK (outcome IN ('succeeded', 'failed', 'cancelled') AND (completed_at IS NULL OR outcome = status)),
    ADD CONSTRAINT mission_finishing_check CHECK (status <> 'finishing' OR outcome IS NOT NULL);
CREATE INDEX mission_parent_idx ON agentq.mission (parent_step_id) WHERE parent_step_id IS NOT NULL;
CREATE INDEX mission_paused_idx ON agentq.mission (paused_with) WHERE paused_with IS NOT NULL;
CREATE INDEX mission_finally_idx ON agentq.mission (finally_of) WHERE finally_of IS NOT NULL;
COMMENT ON COLUMN agentq.mission.outcome IS 'How it ends when what is to be done in any case has been done; NULL: its template has nothing of the kind, or it is not decided.';
COMMENT ON COLUMN agentq.mission.finally_of IS 'The mission of which this one does what is to be done in any case.';
COMMENT ON COLUMN agentq.mission.parent_item IS 'The item of that step''s list, if it works through one.';
COMMENT ON COLUMN agentq.mission.paused_with IS 'The mission whose pause has reached it and its jobs: itself, or one around it. It stays until all jobs may run again; NULL: no job of it was kept from running.';
COMMENT ON TABLE agentq.mission_item IS 'The items of steps that work through a list: one job, or one mission, for each.';
COMMENT ON COLUMN agentq.mission_item.job_id IS 'Its job, or the mission that is its work.';
COMMENT ON COLUMN agentq.signal.taken_by IS 'The job, or the step of a mission, that waited for it; NULL: nobody yet.';
COMMENT ON COLUMN agentq.mission.traceparent IS 'The trace as W3C Trace Context writes it, if the caller gave it so.';
COMMENT ON COLUMN agentq.mission.updated_at IS 'When this row last changed; NULL: not since the mission was submitted.';
COMMENT ON COLUMN agentq.mission.status IS 'approved: it was started paused; running, cancelling, compensating, finishing, succeeded, failed or cancelled.';
-- include: sql/flow/mission_wait.sql
-- include: sql/flow/mission_end_due.sql
-- include: sql/queue/job_end_due.sql
-- include: sql/flow/mission_views.sql
SELECT agentq_internal.fn_access_allow('EXECUTE', '{reader, operator}', '{fn_mission_begun_at}');

ALTER TABLE agentq_internal.effect_drift
    DROP CONSTRAINT effect_drift_drift_check,
    ADD CONSTRAINT effect_drift_drift_check CHECK (drift IN ('undeclared', 'missing', 'standing'));
COMMENT ON COLUMN agentq_internal.effect_drift.drift IS 'undeclared: planned and not declared; missing: declared and not done; standing: to be undone, when its chain halted.';
COMMENT ON COLUMN agentq.v_effect_drift.drift IS 'undeclared: planned and not declared; missing: declared and not done; standing: to be undone, when its chain halted.';

CREATE INDEX command_open_idx ON agentq.command (mission_id) WHERE mission_id IS NOT NULL AND finished_at IS NULL;
ALTER TABLE agentq.command ADD COLUMN trace_id text, ADD COLUMN traceparent text, ADD COLUMN correlation_id text;
COMMENT ON COLUMN agentq.command.trace_id IS 'The trace that it is part of.';
COMMENT ON COLUMN agentq.command.traceparent IS 'That trace as W3C Trace Context writes it, if the caller gave it so.';
COMMENT ON COLUMN agentq.command.correlation_id IS 'What it belongs to, in the caller''s own words.';
-- include: sql/governance/proposal_views.sql
-- include: sql/governance/consumer.sql

CREATE FUNCTION agentq.fn_job_wait(p_job_id uuid, p_wait interval DEFAULT '30 seconds') RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_job_wait_wrapper';
COMMENT ON FUNCTION agentq.fn_job_wait IS 'Waits for the end of a job, for at most 60 seconds, and answers with its result or its failure; pending: it has not ended yet.';
CREATE FUNCTION agentq.fn_mission_wait(p_mission uuid, p_wait interval DEFAULT '30 seconds') RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_mission_wait_wrapper';
COMMENT ON FUNCTION agentq.fn_mission_wait IS 'Waits for the end of a mission, for at most 60 seconds, and answers with its result or its failure; pending: it has not ended yet.';
CREATE FUNCTION agentq.fn_child_start(p_job_id uuid, p_lease_owner text, p_name text, p_job_kind text, p_payload_json jsonb DEFAULT '{}',
    p_options jsonb DEFAULT NULL, p_lease_token uuid DEFAULT NULL) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_child_start_wrapper';
COMMENT ON FUNCTION agentq.fn_child_start IS 'Starts a job for a job that somebody holds, once for each name.';
CREATE FUNCTION agentq.fn_child_wait(p_job_id uuid, p_lease_owner text, p_name text, p_timeout interval DEFAULT NULL,
    p_lease_token uuid DEFAULT NULL) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_child_wait_wrapper';
COMMENT ON FUNCTION agentq.fn_child_wait IS 'Answers with what became of a child; if that has not ended, the job rests until it has, and nobody holds it.';
SELECT agentq_internal.fn_access_allow('EXECUTE', '{producer, worker, reader, operator}', '{fn_job_wait, fn_mission_wait}');

SELECT agentq_internal.fn_access_allow('EXECUTE', '{worker, operator}', '{fn_child_start, fn_child_wait}');

DROP FUNCTION agentq.fn_job_start(uuid, text, uuid);
CREATE FUNCTION agentq.fn_job_start(p_job_id uuid, p_lease_owner text, p_lease_token uuid DEFAULT NULL, p_run_id text DEFAULT NULL,
    p_meta jsonb DEFAULT NULL) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'start_run_wrapper';
COMMENT ON FUNCTION agentq.fn_job_start IS 'Says that the holder has begun: leased becomes in_progress.';
DROP FUNCTION agentq.fn_job_fail_or_retry(uuid, text, text, text, uuid, interval, text);
CREATE FUNCTION agentq.fn_job_fail_or_retry(p_job_id uuid, p_lease_owner text, p_error text, p_error_class text DEFAULT NULL,
    p_lease_token uuid DEFAULT NULL, p_retry_after interval DEFAULT NULL, p_verdict text DEFAULT 'fail', p_error_detail text DEFAULT NULL)
RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fail_with_detail_wrapper';
COMMENT ON FUNCTION agentq.fn_job_fail_or_retry IS 'Ends an attempt without success. Verdict fail: the job waits as its retry policy or p_retry_after says, or ends in the dead letters; cancel: no other try, with a dead letter; discard: no other try and no dead letter; snooze: later, at no cost.';
DROP FUNCTION agentq.fn_job_move_to_dead_letter(uuid, text, text);
CREATE FUNCTION agentq.fn_job_move_to_dead_letter(p_job_id uuid, p_final_error text, p_moved_by text DEFAULT NULL,
    p_letter_reason text DEFAULT 'manual') RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'move_with_reason_wrapper';
COMMENT ON FUNCTION agentq.fn_job_move_to_dead_letter IS 'Gives a job up, held or not, and keeps it in the dead letters.';
DROP FUNCTION agentq.fn_mission_pause(uuid, text);
CREATE FUNCTION agentq.fn_mission_pause(p_mission uuid, p_reason text DEFAULT NULL, p_whole boolean DEFAULT false) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'pause_whole_wrapper';
COMMENT ON FUNCTION agentq.fn_mission_pause IS 'Keeps further steps of a mission from becoming jobs; with p_whole, also the missions inside it and the jobs that nobody holds from running.';
SELECT agentq_internal.fn_access_allow('SELECT', '{reader, operator}', '{mission_wait}');
CREATE FUNCTION agentq.fn_mission_retry(p_mission uuid, p_step text DEFAULT NULL) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_mission_retry_wrapper';
COMMENT ON FUNCTION agentq.fn_mission_retry IS 'Tries failed steps of a failed mission again, in place: one by its name, or all that failed. What the failure had stopped goes on, and so does the mission around it.';
SELECT agentq_internal.fn_access_allow('EXECUTE', '{operator}', '{fn_mission_retry}');
CREATE FUNCTION agentq.fn_mission_recover_stale(p_minutes double precision) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_mission_recover_stale_wrapper';
COMMENT ON FUNCTION agentq.fn_mission_recover_stale IS 'Takes back the steps of missions that somebody holds and has made no progress with for so many minutes. Each counts as an attempt without success.';
CREATE FUNCTION agentq.fn_runtime_capabilities() RETURNS jsonb
IMMUTABLE STRICT PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_runtime_capabilities_wrapper';
COMMENT ON FUNCTION agentq.fn_runtime_capabilities IS 'What this runtime can do, by the names that a catalog of effects may ask for in requires.';
SELECT agentq_internal.fn_access_allow('EXECUTE', '{operator}', '{fn_mission_recover_stale}');
SELECT agentq_internal.fn_access_allow('EXECUTE', '{reader, operator}', '{fn_runtime_capabilities, fn_limit_pending}');
SELECT agentq_internal.fn_access_allow('SELECT', '{reader, operator}', '{v_event_consumer}');

-- A level that may propose, and start nothing by itself.
SELECT agentq_internal.fn_access_allow('EXECUTE', '{proposer}', '{fn_clock_now, fn_version, fn_proposal_create, fn_proposal_gate,
    fn_proposal_is_auto_approvable, fn_template_step_kinds, fn_proposal_get, fn_mission_get, fn_mission_wait, fn_mission_explain,
    fn_mission_graph}');

ALTER TABLE agentq.schedule DROP CONSTRAINT schedule_job_check,
    ADD CONSTRAINT schedule_job_check CHECK (jsonb_typeof(job) = 'object' AND (job ? 'job_kind' OR job ? 'start'));
COMMENT ON COLUMN agentq.schedule.last_job_id IS 'The job of the last slot, or the mission or proposal.';
COMMENT ON COLUMN agentq.v_schedule.last_job_id IS 'The job of the last slot, or the mission or proposal.';

COMMENT ON FUNCTION agentq.fn_limit_report IS 'Tells what the other side said of a key, such as a provider: that it lets nobody through before p_retry_at, or that p_remaining is left. All workers heed it at once. A rule must be about the key, and a day ahead is the most.';

-- Ids name the server that has made them.
CREATE FUNCTION agentq.fn_node_of(p_id uuid) RETURNS integer
IMMUTABLE STRICT PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_node_of_wrapper';
COMMENT ON FUNCTION agentq.fn_node_of(uuid) IS 'The server that has made an id: its agentq.node. NULL for what is not time-ordered, such as a token.';
SELECT agentq_internal.fn_access_allow('EXECUTE', '{producer, proposer, worker, reader, operator}', '{fn_node_of}');

-- Whatever a caller passes has a bound.
CREATE FUNCTION agentq_internal.fn_bounded(p_function text, p_argument text, p_bytes bigint, p_elements bigint DEFAULT NULL) RETURNS boolean
STABLE PARALLEL SAFE
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_bounded_wrapper';
COMMENT ON FUNCTION agentq_internal.fn_bounded IS 'Refuses an argument of a function that is not written in Rust when it is larger than its bound.';
-- include: sql/base/grant.sql
-- include: sql/queue/adjust_concurrency.sql
-- include: sql/queue/insight.sql
-- include: sql/engine/chore_set.sql

-- Nobody reads tokens.
DO $$
DECLARE
    v_role record;
BEGIN
    FOR v_role IN SELECT DISTINCT g.role_name FROM agentq.access_grant g JOIN pg_catalog.pg_roles r ON r.rolname = g.role_name LOOP
        EXECUTE format('REVOKE SELECT ON agentq.action FROM %I', v_role.role_name);
    END LOOP;
END $$;
SELECT agentq_internal.fn_access_allow('EXECUTE', '{worker, reader, operator}', '{fn_attempt_id}');

-- Nothing is for PUBLIC.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA agentq, agentq_internal FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA agentq, agentq_internal FROM PUBLIC;

-- Roles that have a level get what is new in it, and every session learns that the schema is another one.
UPDATE agentq.access_grant SET level = level;
UPDATE agentq.config SET value = value WHERE key = 'queue.job_substrate.enabled';
SELECT agentq_internal.fn_engine_announce();
