-- The executors, each with its last sign of life.
CREATE TABLE agentq.queue_heartbeat (
    executor_name    text PRIMARY KEY,
    executor_kind    text NOT NULL,
    last_tick_at     timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    last_tick_status text NOT NULL DEFAULT 'ok',
    ticks_total      bigint NOT NULL DEFAULT 0,
    current_job_id   uuid,
    lease_owner      text,
    metadata         jsonb NOT NULL DEFAULT '{}',
    created_at       timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    updated_at       timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    freshness        text NOT NULL DEFAULT 'fresh',
    CONSTRAINT queue_heartbeat_name_check CHECK (btrim(executor_name) <> ''),
    CONSTRAINT queue_heartbeat_kind_check CHECK (executor_kind IN ('DOT', 'Agent', 'Hermes', 'Codex', 'PG_worker', 'external_worker', 'future_Kestra_adapter')),
    CONSTRAINT queue_heartbeat_status_check CHECK (last_tick_status IN ('ok', 'warn', 'error')),
    CONSTRAINT queue_heartbeat_metadata_safe_check CHECK (NOT metadata ?| ARRAY['body', 'content', 'raw',
        'vector', 'embedding', 'secret', 'token', 'password', 'ssn', 'personal_data']),
    CONSTRAINT queue_heartbeat_freshness_check CHECK (freshness IN ('fresh', 'warning', 'stale'))
) WITH (fillfactor = 50);
COMMENT ON TABLE agentq.queue_heartbeat IS 'One row per executor, refreshed by fn_queue_heartbeat_tick.';
COMMENT ON COLUMN agentq.queue_heartbeat.executor_name IS 'Name of the executor.';
COMMENT ON COLUMN agentq.queue_heartbeat.executor_kind IS 'What it is.';
COMMENT ON COLUMN agentq.queue_heartbeat.last_tick_at IS 'Its last sign of life.';
COMMENT ON COLUMN agentq.queue_heartbeat.last_tick_status IS 'How it said it was: ok, warn or error.';
COMMENT ON COLUMN agentq.queue_heartbeat.ticks_total IS 'Signs of life so far.';
COMMENT ON COLUMN agentq.queue_heartbeat.current_job_id IS 'The job it was at.';
COMMENT ON COLUMN agentq.queue_heartbeat.lease_owner IS 'The name under which it claims.';
COMMENT ON COLUMN agentq.queue_heartbeat.metadata IS 'What else it said.';
COMMENT ON COLUMN agentq.queue_heartbeat.created_at IS 'Its first sign of life.';
COMMENT ON COLUMN agentq.queue_heartbeat.updated_at IS 'When this row last changed.';
COMMENT ON COLUMN agentq.queue_heartbeat.freshness IS 'fresh, warning or stale, as the engine last found it.';

CREATE TRIGGER tr_queue_heartbeat_updated_at BEFORE UPDATE ON agentq.queue_heartbeat
    FOR EACH ROW EXECUTE FUNCTION agentq_internal.fn_job_queue_updated_at();
COMMENT ON TRIGGER tr_queue_heartbeat_updated_at ON agentq.queue_heartbeat IS 'Refreshes updated_at.';

SELECT pg_catalog.pg_extension_config_dump('agentq.queue_heartbeat', '');
