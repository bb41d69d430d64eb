-- The rules that the columns of a job must keep, whoever writes them. They are domains because the
-- server reads a domain's rules once per session, but a table's CHECKs anew for every statement,
-- which was a seventh of the time of an enqueue, claim and ack.
CREATE DOMAIN agentq_internal.job_payload AS jsonb
    CONSTRAINT job_queue_payload_object_check CHECK (jsonb_typeof(VALUE) = 'object')
    CONSTRAINT job_queue_payload_safe_check CHECK (NOT VALUE ?| ARRAY['body', 'content', 'raw', 'vector',
        'embedding', 'secret', 'token', 'password', 'ssn', 'personal_data']);
COMMENT ON DOMAIN agentq_internal.job_payload IS 'A small signal: an object without content or secrets at its top level.';

CREATE DOMAIN agentq_internal.job_name AS text COLLATE "C"
    CONSTRAINT job_queue_name_check CHECK (btrim(VALUE) <> '' AND octet_length(VALUE) <= 200);
COMMENT ON DOMAIN agentq_internal.job_name IS 'A kind, an owner or an actor: not blank, and at most 200 bytes.';

CREATE DOMAIN agentq_internal.job_key_text AS text COLLATE "C"
    CONSTRAINT job_queue_key_check CHECK (btrim(VALUE) <> '' AND octet_length(VALUE) <= 1000);
COMMENT ON DOMAIN agentq_internal.job_key_text IS 'An idempotency key: not blank, and at most 1000 bytes.';

CREATE DOMAIN agentq_internal.job_count AS integer
    CONSTRAINT job_queue_count_check CHECK (VALUE >= 0);
COMMENT ON DOMAIN agentq_internal.job_count IS 'A priority or a number of attempts: 0 or more.';

CREATE DOMAIN agentq_internal.job_limit AS integer
    CONSTRAINT job_queue_max_attempts_check CHECK (VALUE >= 1);
COMMENT ON DOMAIN agentq_internal.job_limit IS 'How many attempts a job gets: 1 or more.';

CREATE DOMAIN agentq_internal.job_resting_state AS text COLLATE "C"
    CONSTRAINT job_queue_resting_state_check CHECK (VALUE IN ('queued', 'retry_waiting'));
COMMENT ON DOMAIN agentq_internal.job_resting_state IS 'The states of a job that is neither held nor finished.';

CREATE DOMAIN agentq_internal.job_finished_state AS text COLLATE "C"
    CONSTRAINT job_queue_state_check CHECK (VALUE IN ('succeeded', 'failed', 'dead_letter', 'cancelled', 'cleaned'));
COMMENT ON DOMAIN agentq_internal.job_finished_state IS 'The states of a finished job.';

CREATE DOMAIN agentq_internal.job_outcome AS text COLLATE "C"
    CONSTRAINT job_outcome_check CHECK (VALUE IN ('succeeded', 'failed', 'lease_expired', 'released', 'snoozed',
        'cancelled', 'dead_letter', 'slept', 'waiting'));
COMMENT ON DOMAIN agentq_internal.job_outcome IS 'How an attempt may end.';
