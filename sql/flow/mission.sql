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
COMMENT ON TABLE agentq.mission_item IS 'The items of steps that work through a list: one job for each.';
COMMENT ON COLUMN agentq.mission_item.step_id IS 'The step.';
COMMENT ON COLUMN agentq.mission_item.item IS 'The number of the item, from 0.';
COMMENT ON COLUMN agentq.mission_item.job_id IS 'Its job.';
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

CREATE VIEW agentq.v_mission_step AS
SELECT s.step_id,
       s.mission_id,
       s.position,
       s.name,
       s.kind,
       s.params,
       CASE WHEN s.status <> 'queued' THEN s.status::text
            WHEN l.job_id IS NOT NULL OR s.child_id IS NOT NULL THEN 'running'
            WHEN s.item_count IS NOT NULL AND EXISTS (SELECT FROM agentq.mission_item i JOIN agentq_internal.job_lease il ON il.job_id = i.job_id
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
FROM agentq_internal.mission_step s
LEFT JOIN agentq_internal.job j ON j.job_id = s.job_id
LEFT JOIN agentq_internal.job_lease l ON l.job_id = s.job_id;
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
LEFT JOIN agentq_internal.mission_step p ON p.step_id = m.parent_step_id
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE s.status = 'waiting') AS waiting,
           count(*) FILTER (WHERE s.status = 'queued') AS open,
           count(*) FILTER (WHERE s.status = 'succeeded') AS succeeded,
           count(*) FILTER (WHERE s.status = 'failed') AS failed,
           count(*) FILTER (WHERE s.status = 'skipped') AS skipped,
           count(*) FILTER (WHERE s.status = 'cancelled') AS cancelled
    FROM agentq_internal.mission_step s WHERE s.mission_id = m.mission_id) c;
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
FROM (SELECT step_id, job_id, NULL::integer AS item FROM agentq_internal.mission_step WHERE job_id IS NOT NULL
      UNION ALL SELECT step_id, job_id, item FROM agentq.mission_item) w
JOIN agentq_internal.mission_step s ON s.step_id = w.step_id
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
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.mission_step', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.mission_edge', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.mission_item', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.mission_count', '');
