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
    CONSTRAINT policy_value_check CHECK (agentq_internal.fn_policy_accepts(key, value))
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

CREATE FUNCTION agentq_internal.fn_policy_version_keep() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the versions of a policy are never changed or removed'
        USING ERRCODE = 'restrict_violation', HINT = 'Set the policy anew with agentq.fn_policy_set: that makes a new version.';
END $$;
COMMENT ON FUNCTION agentq_internal.fn_policy_version_keep() IS 'Trigger: refuses to change or remove a version of a policy.';
CREATE TRIGGER policy_version_keep BEFORE UPDATE OR DELETE ON agentq.policy_version
    FOR EACH ROW EXECUTE FUNCTION agentq_internal.fn_policy_version_keep();
CREATE TRIGGER policy_version_keep_all BEFORE TRUNCATE ON agentq.policy_version
    FOR EACH STATEMENT EXECUTE FUNCTION agentq_internal.fn_policy_version_keep();
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
COMMENT ON COLUMN agentq.reaction.reason IS 'Why it failed, was skipped, or made no new proposal.';
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
