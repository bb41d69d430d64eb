-- Settings that can change while the server runs. The keys, their kinds and their defaults are
-- listed once, in the library; this table holds the value in force of each.
CREATE TABLE agentq.config (
    key         text PRIMARY KEY,
    value       jsonb NOT NULL,
    description text NOT NULL,
    updated_at  timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    updated_by  text NOT NULL DEFAULT session_user,
    CONSTRAINT config_value_check CHECK (agentq_internal.fn_config_accepts(key, value))
);
COMMENT ON TABLE agentq.config IS 'The settings in force. Read with fn_config_get, change with fn_config_set; a value that its key does not accept cannot be stored.';
COMMENT ON COLUMN agentq.config.key IS 'Name of the setting.';
COMMENT ON COLUMN agentq.config.value IS 'Value in force, as JSON.';
COMMENT ON COLUMN agentq.config.description IS 'What the setting does.';
COMMENT ON COLUMN agentq.config.updated_at IS 'When its value was last changed.';
COMMENT ON COLUMN agentq.config.updated_by IS 'Who last changed its value.';

-- Inserting a key that is there sets it. A restored dump brings its own rows into a table that
-- CREATE EXTENSION has just filled with defaults, and must win.
CREATE FUNCTION agentq_internal.fn_config_take() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE agentq.config
    SET value = NEW.value, updated_at = NEW.updated_at, updated_by = NEW.updated_by
    WHERE key = NEW.key;
    IF FOUND THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION agentq_internal.fn_config_take() IS 'Trigger: an inserted key that is there already is set instead.';

CREATE TRIGGER config_take BEFORE INSERT ON agentq.config
    FOR EACH ROW EXECUTE FUNCTION agentq_internal.fn_config_take();
CREATE TRIGGER config_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON agentq.config
    FOR EACH STATEMENT EXECUTE FUNCTION agentq_internal.fn_settings_changed();
COMMENT ON TRIGGER config_take ON agentq.config IS 'Lets a restored dump overwrite the defaults.';
COMMENT ON TRIGGER config_changed ON agentq.config IS 'Makes every session read the settings again.';

INSERT INTO agentq.config (key, value, description)
SELECT key, value, description FROM agentq_internal.fn_config_defaults();

SELECT pg_catalog.pg_extension_config_dump('agentq.config', '');
