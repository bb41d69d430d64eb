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

CREATE SEQUENCE agentq_internal.effect_seq;

CREATE TABLE agentq_internal.effect (
    effect_id             uuid NOT NULL,
    seq                   bigint NOT NULL DEFAULT nextval('agentq_internal.effect_seq'),
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
    CONSTRAINT effect_status_check CHECK (status IN ('planned', 'executing', 'succeeded', 'failed', 'compensating', 'compensated', 'compensation_failed', 'compensation_skipped')),
    CONSTRAINT effect_payload_check CHECK (jsonb_typeof(payload) = 'object'),
    CONSTRAINT effect_begun_check CHECK ((status = 'planned') = (begun = 0)),
    CONSTRAINT effect_executing_check CHECK (status <> 'executing' OR (lease_token IS NOT NULL AND begun_at IS NOT NULL)),
    CONSTRAINT effect_compensation_check CHECK (status NOT IN ('compensating', 'compensated', 'compensation_failed')
        OR (declared_compensation IS NOT NULL AND chain_id IS NOT NULL)),
    CONSTRAINT effect_compensating_check CHECK (status NOT IN ('compensating', 'compensated') OR compensation_job_id IS NOT NULL),
    CONSTRAINT effect_compensated_check CHECK ((status = 'compensated') = (compensated_at IS NOT NULL))
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX effect_key_uq ON agentq_internal.effect (job_id, effect_type, idempotency_key);
CREATE INDEX effect_mission_idx ON agentq_internal.effect (mission_id, seq) WHERE mission_id IS NOT NULL;
CREATE INDEX effect_chain_idx ON agentq_internal.effect (chain_id, seq) WHERE chain_id IS NOT NULL;
CREATE INDEX effect_compensation_job_idx ON agentq_internal.effect (compensation_job_id) WHERE compensation_job_id IS NOT NULL;
ALTER SEQUENCE agentq_internal.effect_seq OWNED BY agentq_internal.effect.seq;
COMMENT ON TABLE agentq_internal.effect IS 'What jobs change outside: planned before it is done, and kept with its outcome. Read v_effect.';
COMMENT ON COLUMN agentq_internal.effect.effect_id IS 'Time-ordered id.';
COMMENT ON COLUMN agentq_internal.effect.seq IS 'The order in which effects were declared.';
COMMENT ON COLUMN agentq_internal.effect.mission_id IS 'The mission that answers for it: that of its job, or the fork that has taken over its step.';
COMMENT ON COLUMN agentq_internal.effect.step_id IS 'The step in that mission.';
COMMENT ON COLUMN agentq_internal.effect.job_id IS 'The job that planned it, and whose holder carries it out.';
COMMENT ON COLUMN agentq_internal.effect.effect_type IS 'What kind of effect it is.';
COMMENT ON COLUMN agentq_internal.effect.payload IS 'What is to be done, as a small signal.';
COMMENT ON COLUMN agentq_internal.effect.idempotency_key IS 'Known to the other side: the same in every attempt.';
COMMENT ON COLUMN agentq_internal.effect.declared_compensation IS 'The compensation that counters it; NULL: none.';
COMMENT ON COLUMN agentq_internal.effect.counter_effects IS 'Whether it only undoes an earlier effect.';
COMMENT ON COLUMN agentq_internal.effect.idempotent IS 'Whether it may be repeated when it is not known whether it happened.';
COMMENT ON COLUMN agentq_internal.effect.manifest_version IS 'The version of the catalog that was in force when it was planned.';
COMMENT ON COLUMN agentq_internal.effect.status IS 'planned, executing, succeeded, failed, compensating, compensated, compensation_failed or compensation_skipped.';
COMMENT ON COLUMN agentq_internal.effect.lease_token IS 'The lease under which it was last begun.';
COMMENT ON COLUMN agentq_internal.effect.begun IS 'How often it was begun.';
COMMENT ON COLUMN agentq_internal.effect.result IS 'What the worker handed in when it had succeeded.';
COMMENT ON COLUMN agentq_internal.effect.error IS 'Why it, or its compensation, last failed.';
COMMENT ON COLUMN agentq_internal.effect.compensates IS 'The effect that its job compensates.';
COMMENT ON COLUMN agentq_internal.effect.chain_id IS 'The chain of compensations that it was last part of.';
COMMENT ON COLUMN agentq_internal.effect.compensation_job_id IS 'The job that last compensated it.';
COMMENT ON COLUMN agentq_internal.effect.planned_at IS 'When it was planned.';
COMMENT ON COLUMN agentq_internal.effect.begun_at IS 'When it was last begun.';
COMMENT ON COLUMN agentq_internal.effect.ended_at IS 'When it succeeded or last failed.';
COMMENT ON COLUMN agentq_internal.effect.compensated_at IS 'When it had been compensated.';

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
CREATE INDEX effect_chain_mission_idx ON agentq.effect_chain (mission_id, started_at) WHERE mission_id IS NOT NULL;
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

CREATE TABLE agentq_internal.effect_drift (
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
    CONSTRAINT effect_drift_drift_check CHECK (drift IN ('undeclared', 'missing', 'standing')),
    CONSTRAINT effect_drift_about_check CHECK (about IN ('operation', 'compensation'))
);
COMMENT ON TABLE agentq_internal.effect_drift IS 'Where jobs did otherwise than the manifest declares. Read v_effect_drift.';
COMMENT ON COLUMN agentq_internal.effect_drift.job_id IS 'The job.';
COMMENT ON COLUMN agentq_internal.effect_drift.effect_type IS 'The type of the effect.';
COMMENT ON COLUMN agentq_internal.effect_drift.drift IS 'undeclared: planned and not declared; missing: declared and not done; standing: to be undone, when its chain halted.';
COMMENT ON COLUMN agentq_internal.effect_drift.about IS 'operation or compensation.';
COMMENT ON COLUMN agentq_internal.effect_drift.declared_by IS 'The operation or compensation whose declaration it differs from.';
COMMENT ON COLUMN agentq_internal.effect_drift.compensates IS 'The effect that the job compensates.';
COMMENT ON COLUMN agentq_internal.effect_drift.mission_id IS 'The mission, if there is one.';
COMMENT ON COLUMN agentq_internal.effect_drift.manifest_version IS 'The version of the catalog that was in force.';
COMMENT ON COLUMN agentq_internal.effect_drift.found_at IS 'When it was found.';

CREATE VIEW agentq.v_effect AS
SELECT e.effect_id, e.seq, e.mission_id, e.step_id, e.job_id, j.job_kind, j.state AS job_state, e.effect_type, e.status,
       e.status = 'executing' AND NOT EXISTS (
           SELECT FROM agentq_internal.job_lease l WHERE l.job_id = e.job_id AND l.lease_token = e.lease_token) AS outcome_unknown,
       e.idempotency_key, e.payload, e.result, e.error, e.begun, e.declared_compensation, e.counter_effects, e.idempotent,
       e.compensates, e.chain_id, e.compensation_job_id, e.manifest_version, e.planned_at, e.begun_at, e.ended_at, e.compensated_at
FROM agentq_internal.effect e
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
COMMENT ON COLUMN agentq.v_effect.status IS 'planned, executing, succeeded, failed, compensating, compensated, compensation_failed or compensation_skipped.';
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
FROM agentq_internal.effect_drift d
LEFT JOIN agentq_internal.job j ON j.job_id = d.job_id;
COMMENT ON VIEW agentq.v_effect_drift IS 'Where jobs did otherwise than the manifest declares.';
COMMENT ON COLUMN agentq.v_effect_drift.found_at IS 'When it was found.';
COMMENT ON COLUMN agentq.v_effect_drift.about IS 'operation or compensation.';
COMMENT ON COLUMN agentq.v_effect_drift.declared_by IS 'The operation or compensation whose declaration it differs from.';
COMMENT ON COLUMN agentq.v_effect_drift.drift IS 'undeclared: planned and not declared; missing: declared and not done; standing: to be undone, when its chain halted.';
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
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.effect_seq', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.effect', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.effect_chain', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.effect_drift', '');
