-- From 0.9.0 to 0.10.0: only what changes. What is whole and new is included from its file.

ALTER TABLE agentq_internal.job_lease
    ADD COLUMN lease_seconds integer,
    ADD COLUMN heartbeat_at timestamptz,
    ADD COLUMN stall_seconds integer;
COMMENT ON COLUMN agentq_internal.job_lease.lease_seconds IS 'How long the lease was asked to be; NULL: as long as its queue, or the setting, says.';
COMMENT ON COLUMN agentq_internal.job_lease.heartbeat_at IS 'When its holder last extended it.';
COMMENT ON COLUMN agentq_internal.job_lease.stall_seconds IS 'As in job.';
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

-- Roles that have a level get what is new in it, and every session learns that the schema is another one.
UPDATE agentq.access_grant SET level = level;
UPDATE agentq.config SET value = value WHERE key = 'queue.job_substrate.enabled';
SELECT agentq_internal.fn_engine_announce();
