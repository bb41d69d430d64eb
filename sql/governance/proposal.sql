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
    trace_id        text,
    traceparent     text,
    correlation_id  text,
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
CREATE INDEX command_open_idx ON agentq.command (mission_id) WHERE mission_id IS NOT NULL AND finished_at IS NULL;
CREATE INDEX command_created_idx ON agentq.command (created_at);
COMMENT ON TABLE agentq.command IS 'What somebody wants done, what was decided about it, under which policies, and what came of it. v_proposal shows it as a proposal.';
COMMENT ON COLUMN agentq.command.command_id IS 'Time-ordered id; the proposal''s id.';
COMMENT ON COLUMN agentq.command.dedupe_key IS 'A key stands for one proposal, for ever.';
COMMENT ON COLUMN agentq.command.source IS 'api, trigger, reaction or manual.';
COMMENT ON COLUMN agentq.command.decision IS 'pending, approved, rejected or auto_approved. Decided once.';
COMMENT ON COLUMN agentq.command.state IS 'As the decision; then, when its mission has ended, succeeded, failed or cancelled.';
COMMENT ON COLUMN agentq.command.title IS 'Its template''s title.';
COMMENT ON COLUMN agentq.command.risk_level IS 'How risky it says it is: low, medium, high or critical. NULL: it does not say.';
COMMENT ON COLUMN agentq.command.template IS 'The mission template.';
COMMENT ON COLUMN agentq.command.reason IS 'Why it was rejected, why it needs a person, or what whoever decided said.';
COMMENT ON COLUMN agentq.command.policy_snapshot IS 'The policies that decided, each with its version and value.';
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
COMMENT ON COLUMN agentq.command.trace_id IS 'The trace that it is part of.';
COMMENT ON COLUMN agentq.command.traceparent IS 'That trace as W3C Trace Context writes it, if the caller gave it so.';
COMMENT ON COLUMN agentq.command.correlation_id IS 'What it belongs to, in the caller''s own words.';

CREATE TABLE agentq_internal.proposal_count (
    day      date NOT NULL,
    source   text NOT NULL,
    accepted bigint NOT NULL,
    CONSTRAINT proposal_count_pkey PRIMARY KEY (day, source),
    CONSTRAINT proposal_count_accepted_check CHECK (accepted >= 0)
) WITH (fillfactor = 50);
COMMENT ON TABLE agentq_internal.proposal_count IS 'How many proposals passed the gate on a day, where there is a cap. Whoever makes one locks these rows, so that no two pass the cap together.';
COMMENT ON COLUMN agentq_internal.proposal_count.day IS 'The day, in UTC.';
COMMENT ON COLUMN agentq_internal.proposal_count.source IS 'The source; *: all of them.';
COMMENT ON COLUMN agentq_internal.proposal_count.accepted IS 'How many have passed.';

SELECT pg_catalog.pg_extension_config_dump('agentq.command', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.proposal_count', '');
