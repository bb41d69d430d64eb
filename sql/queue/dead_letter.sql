-- Jobs that will not be tried again. A copy, with no tie to the job, so that it outlives it.
CREATE TABLE agentq.job_dead_letter (
    dead_letter_id  uuid PRIMARY KEY,
    job_id          uuid NOT NULL,
    job_kind        text NOT NULL,
    source_ref      text,
    target_ref      text,
    payload_ref     text,
    payload_json    jsonb NOT NULL DEFAULT '{}',
    final_error     text NOT NULL,
    attempts        integer NOT NULL,
    actor           text NOT NULL,
    run_id          uuid,
    idempotency_key text NOT NULL,
    moved_at        timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    moved_by        text NOT NULL,
    triage_status   text NOT NULL DEFAULT 'pending',
    triage_note     text,
    triaged_at      timestamptz,
    triaged_by      text,
    queue           text NOT NULL DEFAULT 'default',
    CONSTRAINT job_dead_letter_job_uq UNIQUE (job_id),
    CONSTRAINT job_dead_letter_final_error_check CHECK (btrim(final_error) <> ''),
    CONSTRAINT job_dead_letter_attempts_check CHECK (attempts >= 0),
    CONSTRAINT job_dead_letter_moved_by_check CHECK (btrim(moved_by) <> ''),
    CONSTRAINT job_dead_letter_triage_check CHECK (triage_status IN ('pending', 'acknowledged', 'manual_replay', 'escalated', 'closed')),
    CONSTRAINT job_dead_letter_payload_safe_check CHECK (NOT payload_json ?| ARRAY['body', 'content', 'raw',
        'vector', 'embedding', 'secret', 'token', 'password', 'ssn', 'personal_data'])
);
CREATE INDEX job_dead_letter_triage_idx ON agentq.job_dead_letter (triage_status, moved_at);
CREATE INDEX job_dead_letter_kind_idx ON agentq.job_dead_letter (job_kind, triage_status);
COMMENT ON TABLE agentq.job_dead_letter IS 'Jobs that will not be tried again, with their triage. Survives the removal of the job.';
COMMENT ON COLUMN agentq.job_dead_letter.dead_letter_id IS 'Id of the dead letter.';
COMMENT ON COLUMN agentq.job_dead_letter.job_id IS 'The job; not a reference, it may be gone.';
COMMENT ON COLUMN agentq.job_dead_letter.job_kind IS 'Copied from the job.';
COMMENT ON COLUMN agentq.job_dead_letter.source_ref IS 'Copied from the job.';
COMMENT ON COLUMN agentq.job_dead_letter.target_ref IS 'Copied from the job.';
COMMENT ON COLUMN agentq.job_dead_letter.payload_ref IS 'Copied from the job.';
COMMENT ON COLUMN agentq.job_dead_letter.payload_json IS 'Copied from the job.';
COMMENT ON COLUMN agentq.job_dead_letter.final_error IS 'Why it was given up.';
COMMENT ON COLUMN agentq.job_dead_letter.attempts IS 'Attempts that had failed.';
COMMENT ON COLUMN agentq.job_dead_letter.actor IS 'Copied from the job.';
COMMENT ON COLUMN agentq.job_dead_letter.run_id IS 'Copied from the job.';
COMMENT ON COLUMN agentq.job_dead_letter.idempotency_key IS 'Copied from the job.';
COMMENT ON COLUMN agentq.job_dead_letter.moved_at IS 'When it was given up.';
COMMENT ON COLUMN agentq.job_dead_letter.moved_by IS 'Who gave it up.';
COMMENT ON COLUMN agentq.job_dead_letter.triage_status IS 'pending, acknowledged, manual_replay, escalated or closed.';
COMMENT ON COLUMN agentq.job_dead_letter.triage_note IS 'What the triage found.';
COMMENT ON COLUMN agentq.job_dead_letter.triaged_at IS 'When it was last triaged.';
COMMENT ON COLUMN agentq.job_dead_letter.triaged_by IS 'Who last triaged it.';
COMMENT ON COLUMN agentq.job_dead_letter.queue IS 'The queue the job was in.';

SELECT pg_catalog.pg_extension_config_dump('agentq.job_dead_letter', '');
