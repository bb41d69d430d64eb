-- 0.5.0: claims that need not be on disk.

ALTER TABLE agentq.queue ADD COLUMN durable_claims boolean NOT NULL DEFAULT true;
COMMENT ON COLUMN agentq.queue.durable_claims IS 'Whether a claim is on disk before it is answered; if not, a crash of the server may make jobs ready again that were claimed in its last moments.';
CREATE OR REPLACE FUNCTION agentq.fn_queue_take() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE agentq.queue
    SET lease_seconds = NEW.lease_seconds, max_attempts = NEW.max_attempts, priority = NEW.priority,
        description = NEW.description, paused_at = NEW.paused_at, paused_reason = NEW.paused_reason,
        created_at = NEW.created_at, updated_at = NEW.updated_at, keep_seconds = NEW.keep_seconds,
        durable_claims = NEW.durable_claims
    WHERE queue_id = NEW.queue_id AND queue = NEW.queue;
    IF FOUND THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;
