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
    reason          text,
    error_class     text,
    error_history   jsonb NOT NULL DEFAULT '[]',
    settings        jsonb NOT NULL DEFAULT '{}',
    resolution_status text NOT NULL DEFAULT 'pending',
    assigned_to     text,
    resolution_notes text,
    resolved_at     timestamptz,
    redriven_as     uuid,
    redriven_at     timestamptz,
    CONSTRAINT job_dead_letter_job_uq UNIQUE (job_id),
    CONSTRAINT job_dead_letter_final_error_check CHECK (btrim(final_error) <> ''),
    CONSTRAINT job_dead_letter_attempts_check CHECK (attempts >= 0),
    CONSTRAINT job_dead_letter_moved_by_check CHECK (btrim(moved_by) <> ''),
    CONSTRAINT job_dead_letter_triage_check CHECK (triage_status IN ('pending', 'acknowledged', 'manual_replay', 'escalated', 'closed')),
    CONSTRAINT job_dead_letter_reason_check CHECK (reason IN ('exhausted', 'non_retryable', 'cancelled', 'poison', 'deadline', 'manual')),
    CONSTRAINT job_dead_letter_resolution_check CHECK (resolution_status IN ('pending', 'investigating', 'resolved', 'abandoned')),
    CONSTRAINT job_dead_letter_payload_safe_check CHECK (NOT payload_json ?| ARRAY['body', 'content', 'raw',
        'vector', 'embedding', 'secret', 'token', 'password', 'ssn', 'personal_data'])
);
CREATE INDEX job_dead_letter_triage_idx ON agentq.job_dead_letter (triage_status, moved_at);
CREATE INDEX job_dead_letter_kind_idx ON agentq.job_dead_letter (job_kind, triage_status);
CREATE INDEX job_dead_letter_pending_idx ON agentq.job_dead_letter (moved_at) WHERE resolution_status = 'pending';
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
COMMENT ON COLUMN agentq.job_dead_letter.reason IS 'Why it is here: exhausted, non_retryable, cancelled, poison, deadline or manual.';
COMMENT ON COLUMN agentq.job_dead_letter.error_class IS 'Class of the last error.';
COMMENT ON COLUMN agentq.job_dead_letter.error_history IS 'Every attempt: number, owner, beginning, end, outcome, class and error.';
COMMENT ON COLUMN agentq.job_dead_letter.settings IS 'What else the job was enqueued with, so that a redrive is like it.';
COMMENT ON COLUMN agentq.job_dead_letter.resolution_status IS 'pending, investigating, resolved or abandoned.';
COMMENT ON COLUMN agentq.job_dead_letter.assigned_to IS 'Who looks into it.';
COMMENT ON COLUMN agentq.job_dead_letter.resolution_notes IS 'What was done about it.';
COMMENT ON COLUMN agentq.job_dead_letter.resolved_at IS 'When it was resolved or abandoned.';
COMMENT ON COLUMN agentq.job_dead_letter.redriven_as IS 'The job as which it was tried again.';
COMMENT ON COLUMN agentq.job_dead_letter.redriven_at IS 'When that was.';

SELECT pg_catalog.pg_extension_config_dump('agentq.job_dead_letter', '');
