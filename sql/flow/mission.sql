-- Missions: several steps with an order between them. A step becomes a job when those before it allow it.
--
--   mission        what it is and how it ended; its row changes a few times in its life, not with every step
--   mission_step   one row for each step, with the counters that say when it may begin
--   mission_edge   which step waits for which, and how that must end
--   mission_item   the jobs of a step that works through a list
--   mission_count  how many steps (or items) are open, spread over several rows, so that their ends seldom meet

-- The tables that every end of a step changes have domains in place of CHECKs: the server reads the CHECKs of a table anew
-- for every statement, which took a quarter of the time of such an end.
CREATE DOMAIN agentq_internal.mission_step_status AS text CHECK (VALUE IN ('waiting', 'queued', 'succeeded', 'failed', 'skipped', 'cancelled'));
COMMENT ON DOMAIN agentq_internal.mission_step_status IS 'Where a step of a mission stands.';
CREATE DOMAIN agentq_internal.mission_number AS integer CHECK (VALUE >= 0);
COMMENT ON DOMAIN agentq_internal.mission_number IS 'How many of something in a mission.';
CREATE DOMAIN agentq_internal.mission_count_state AS text CHECK (VALUE IN ('running', 'paused', 'stopping'));
COMMENT ON DOMAIN agentq_internal.mission_count_state IS 'Whether further steps of a mission become jobs.';

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
    updated_at        timestamptz,
    traceparent       text,
    outcome           text,
    finally_of        uuid,
    parent_item       integer,
    paused_with       uuid,
    CONSTRAINT mission_pkey PRIMARY KEY (mission_id),
    CONSTRAINT mission_status_check CHECK (status IN
        ('approved', 'running', 'cancelling', 'compensating', 'finishing', 'succeeded', 'failed', 'cancelled')),
    CONSTRAINT mission_mode_check CHECK (cancellation_mode IN ('graceful', 'compensate_then_stop')),
    CONSTRAINT mission_completed_check CHECK ((completed_at IS NOT NULL) = (status IN ('succeeded', 'failed', 'cancelled'))),
    CONSTRAINT mission_started_check CHECK (status <> 'approved' OR (started_at IS NULL AND paused_at IS NOT NULL)),
    CONSTRAINT mission_outcome_check CHECK (outcome IN ('succeeded', 'failed', 'cancelled') AND (completed_at IS NULL OR outcome = status)),
    CONSTRAINT mission_finishing_check CHECK (status <> 'finishing' OR outcome IS NOT NULL),
    CONSTRAINT mission_failed_check CHECK (status <> 'failed' OR last_error IS NOT NULL),
    CONSTRAINT mission_size_check CHECK (step_count > 0 AND depth >= 0)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX mission_idempotency_uq ON agentq.mission (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX mission_open_idx ON agentq.mission (mission_id) WHERE completed_at IS NULL;
CREATE INDEX mission_completed_idx ON agentq.mission (completed_at) WHERE completed_at IS NOT NULL;
CREATE INDEX mission_parent_idx ON agentq.mission (parent_step_id) WHERE parent_step_id IS NOT NULL;
CREATE INDEX mission_paused_idx ON agentq.mission (paused_with) WHERE paused_with IS NOT NULL;
CREATE INDEX mission_finally_idx ON agentq.mission (finally_of) WHERE finally_of IS NOT NULL;
CREATE INDEX mission_deadline_idx ON agentq.mission (deadline_at) WHERE deadline_at IS NOT NULL AND completed_at IS NULL;
COMMENT ON TABLE agentq.mission IS 'Several steps with an order between them. Read v_mission, which counts them too.';
COMMENT ON COLUMN agentq.mission.mission_id IS 'Time-ordered id.';
COMMENT ON COLUMN agentq.mission.status IS 'approved: it was started paused; running, cancelling, compensating, finishing, succeeded, failed or cancelled.';
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
COMMENT ON COLUMN agentq.mission.outcome IS 'How it ends when what is to be done in any case has been done; NULL: its template has nothing of the kind, or it is not decided.';
COMMENT ON COLUMN agentq.mission.finally_of IS 'The mission of which this one does what is to be done in any case.';
COMMENT ON COLUMN agentq.mission.parent_item IS 'The item of that step''s list, if it works through one.';
COMMENT ON COLUMN agentq.mission.paused_with IS 'The mission whose pause has reached it and its jobs: itself, or one around it. It stays until all jobs may run again; NULL: no job of it was kept from running.';
COMMENT ON COLUMN agentq.mission.traceparent IS 'The trace as W3C Trace Context writes it, if the caller gave it so.';
COMMENT ON COLUMN agentq.mission.updated_at IS 'When this row last changed; NULL: not since the mission was submitted.';

CREATE TABLE agentq_internal.mission_step (
    step_id    uuid NOT NULL,
    mission_id uuid NOT NULL,
    position   integer NOT NULL,
    level      integer NOT NULL,
    depth      integer NOT NULL,
    shard      integer NOT NULL DEFAULT 0,
    need       agentq_internal.mission_number NOT NULL,
    met        agentq_internal.mission_number NOT NULL DEFAULT 0,
    pending    agentq_internal.mission_number NOT NULL,
    children   agentq_internal.mission_number NOT NULL,
    fails_mission boolean NOT NULL,
    status     agentq_internal.mission_step_status NOT NULL DEFAULT 'waiting',
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
COMMENT ON TABLE agentq_internal.mission_step IS 'Storage: the steps of missions. Read v_mission_step, which shows what became of their jobs.';
COMMENT ON COLUMN agentq_internal.mission_step.step_id IS 'Ids of a mission''s steps are in the order of their levels: the order in which they are locked.';
COMMENT ON COLUMN agentq_internal.mission_step.mission_id IS 'The mission.';
COMMENT ON COLUMN agentq_internal.mission_step.position IS 'Its number in the template, from 0.';
COMMENT ON COLUMN agentq_internal.mission_step.level IS 'The longest way to it from a step that waits for none.';
COMMENT ON COLUMN agentq_internal.mission_step.depth IS 'As in mission.';
COMMENT ON COLUMN agentq_internal.mission_step.shard IS 'The row of mission_count in which it is counted.';
COMMENT ON COLUMN agentq_internal.mission_step.need IS 'How many steps before it must end as it asks.';
COMMENT ON COLUMN agentq_internal.mission_step.met IS 'How many have.';
COMMENT ON COLUMN agentq_internal.mission_step.pending IS 'How many steps before it have not ended.';
COMMENT ON COLUMN agentq_internal.mission_step.children IS 'How many steps wait for it.';
COMMENT ON COLUMN agentq_internal.mission_step.fails_mission IS 'Whether its failure ends the mission.';
COMMENT ON COLUMN agentq_internal.mission_step.status IS 'waiting, queued, succeeded, failed, skipped or cancelled.';
COMMENT ON COLUMN agentq_internal.mission_step.ready_at IS 'When it might have begun, if the mission was paused then.';
COMMENT ON COLUMN agentq_internal.mission_step.queued_at IS 'When it became a job, several jobs or a mission.';
COMMENT ON COLUMN agentq_internal.mission_step.ended_at IS 'When it ended.';
COMMENT ON COLUMN agentq_internal.mission_step.job_id IS 'Its job.';
COMMENT ON COLUMN agentq_internal.mission_step.child_id IS 'The mission that is its work.';
COMMENT ON COLUMN agentq_internal.mission_step.item_count IS 'How many items it works through, each with a job in mission_item.';
COMMENT ON COLUMN agentq_internal.mission_step.taken_from IS 'The step of the forked mission whose result it has.';
COMMENT ON COLUMN agentq_internal.mission_step.created_at IS 'When it was submitted.';
COMMENT ON COLUMN agentq_internal.mission_step.name IS 'Its name, unique in the mission.';
COMMENT ON COLUMN agentq_internal.mission_step.kind IS 'The kind of its jobs.';
COMMENT ON COLUMN agentq_internal.mission_step.executor IS 'Who is to do it; handed to the worker.';
COMMENT ON COLUMN agentq_internal.mission_step.last_error IS 'Why it failed, was skipped or was cancelled.';
COMMENT ON COLUMN agentq_internal.mission_step.params IS 'Its parameters, as in the template.';
COMMENT ON COLUMN agentq_internal.mission_step.spec IS 'Its condition, list, time-out and the like; NULL: none.';
COMMENT ON COLUMN agentq_internal.mission_step.result IS 'What its job handed in; of a list, what its jobs did, in order.';

CREATE TABLE agentq_internal.mission_edge (
    parent_id   uuid NOT NULL,
    child_id    uuid NOT NULL,
    child_level integer NOT NULL,
    required    text NOT NULL,
    CONSTRAINT mission_edge_pkey PRIMARY KEY (parent_id, child_id),
    CONSTRAINT mission_edge_required_check CHECK (required IN ('succeeded', 'failed', 'skipped', 'ended'))
);
CREATE INDEX mission_edge_child_idx ON agentq_internal.mission_edge (child_id);
COMMENT ON TABLE agentq_internal.mission_edge IS 'Storage: which step waits for which.';
COMMENT ON COLUMN agentq_internal.mission_edge.parent_id IS 'The step that comes first.';
COMMENT ON COLUMN agentq_internal.mission_edge.child_id IS 'The step that waits for it.';
COMMENT ON COLUMN agentq_internal.mission_edge.child_level IS 'The level of that step.';
COMMENT ON COLUMN agentq_internal.mission_edge.required IS 'How the first must end: succeeded, failed, skipped or ended.';

CREATE TABLE agentq.mission_item (
    step_id    uuid NOT NULL,
    item       integer NOT NULL,
    job_id     uuid NOT NULL,
    status     agentq_internal.mission_step_status NOT NULL DEFAULT 'queued',
    ended_at   timestamptz,
    last_error text,
    result     jsonb,
    CONSTRAINT mission_item_pkey PRIMARY KEY (step_id, item)
) WITH (fillfactor = 70);
COMMENT ON TABLE agentq.mission_item IS 'The items of steps that work through a list: one job, or one mission, for each.';
COMMENT ON COLUMN agentq.mission_item.step_id IS 'The step.';
COMMENT ON COLUMN agentq.mission_item.item IS 'The number of the item, from 0.';
COMMENT ON COLUMN agentq.mission_item.job_id IS 'Its job, or the mission that is its work.';
COMMENT ON COLUMN agentq.mission_item.status IS 'queued, succeeded, failed or cancelled.';
COMMENT ON COLUMN agentq.mission_item.ended_at IS 'When its job ended.';
COMMENT ON COLUMN agentq.mission_item.last_error IS 'Why it failed or was cancelled.';
COMMENT ON COLUMN agentq.mission_item.result IS 'What its job handed in.';

CREATE TABLE agentq_internal.mission_count (
    owner_id uuid NOT NULL,
    shard    integer NOT NULL,
    active   agentq_internal.mission_number NOT NULL,
    state    agentq_internal.mission_count_state NOT NULL DEFAULT 'running',
    CONSTRAINT mission_count_pkey PRIMARY KEY (owner_id, shard)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE INDEX mission_count_stopping_idx ON agentq_internal.mission_count (owner_id) WHERE state = 'stopping';
COMMENT ON TABLE agentq_internal.mission_count IS 'Storage: how many steps of a mission, or items of a step, are under way. Gone when it has ended.';
COMMENT ON COLUMN agentq_internal.mission_count.owner_id IS 'The mission, or the step that works through a list.';
COMMENT ON COLUMN agentq_internal.mission_count.shard IS 'The number of the row, from 0.';
COMMENT ON COLUMN agentq_internal.mission_count.active IS 'How many of those counted here are under way.';
COMMENT ON COLUMN agentq_internal.mission_count.state IS 'running, paused or stopping: whether further steps become jobs. All rows of a mission agree on it.';

SELECT pg_catalog.pg_extension_config_dump('agentq.mission', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.mission_step', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.mission_edge', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.mission_item', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.mission_count', '');
