-- From 0.9.0 to 0.10.0: only what changes. What is whole and new is included from its file.

ALTER TABLE agentq_internal.job_lease
    ADD COLUMN lease_seconds integer,
    ADD COLUMN heartbeat_at timestamptz;
COMMENT ON COLUMN agentq_internal.job_lease.lease_seconds IS 'How long the lease was asked to be; NULL: as long as its queue, or the setting, says.';
COMMENT ON COLUMN agentq_internal.job_lease.heartbeat_at IS 'When its holder last extended it.';

COMMENT ON COLUMN agentq.config.updated_at IS 'When its value was last changed.';
COMMENT ON COLUMN agentq.config.updated_by IS 'Who last changed its value.';
