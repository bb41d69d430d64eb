-- Which errors are worth another try, and how tries are made.
CREATE TABLE agentq.error_class (
    error_class text COLLATE "C" NOT NULL,
    retryable   boolean NOT NULL,
    aliases     text[] NOT NULL DEFAULT '{}',
    description text,
    built_in    boolean NOT NULL DEFAULT false,
    updated_at  timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    CONSTRAINT error_class_pkey PRIMARY KEY (error_class),
    CONSTRAINT error_class_name_check CHECK (btrim(error_class) <> '' AND octet_length(error_class) <= 200)
);
COMMENT ON TABLE agentq.error_class IS 'The known classes of errors. One that is not here is worth another try, and the answer to the failure says so. Changed with fn_error_class_set.';
COMMENT ON COLUMN agentq.error_class.error_class IS 'Name of the class; case, - and spaces do not matter where it is used.';
COMMENT ON COLUMN agentq.error_class.retryable IS 'Whether another try may help. If not, no job is tried again after such an error, whatever its policy says.';
COMMENT ON COLUMN agentq.error_class.aliases IS 'Other names that mean the same.';
COMMENT ON COLUMN agentq.error_class.description IS 'What it means.';
COMMENT ON COLUMN agentq.error_class.built_in IS 'Whether agentq came with it.';
COMMENT ON COLUMN agentq.error_class.updated_at IS 'When it was last changed.';

CREATE TABLE agentq.retry_policy (
    scope                    text NOT NULL,
    name                     text COLLATE "C" NOT NULL,
    max_attempts             integer,
    backoff                  text,
    seconds                  double precision,
    multiplier               double precision,
    max_seconds              double precision,
    delays                   double precision[],
    jitter                   double precision,
    retryable                text[],
    non_retryable            text[],
    requires_idempotency_key boolean,
    created_at               timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    updated_at               timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    CONSTRAINT retry_policy_pkey PRIMARY KEY (scope, name),
    CONSTRAINT retry_policy_scope_check CHECK (scope IN ('default', 'queue', 'kind')),
    CONSTRAINT retry_policy_name_check CHECK ((scope = 'default') = (name = '') AND octet_length(name) <= 200),
    CONSTRAINT retry_policy_max_attempts_check CHECK (max_attempts >= 1),
    CONSTRAINT retry_policy_backoff_check CHECK (backoff IN ('doubling', 'fixed', 'linear', 'exponential', 'quartic', 'list')),
    CONSTRAINT retry_policy_list_check CHECK (backoff <> 'list' OR coalesce(cardinality(delays), 0) > 0),
    CONSTRAINT retry_policy_numbers_check CHECK (seconds >= 0 AND multiplier >= 1 AND max_seconds >= 0 AND jitter BETWEEN 0 AND 1)
);
COMMENT ON TABLE agentq.retry_policy IS 'How failed jobs are tried again. That of the kind goes before that of the queue, and that before the default, column by column. Changed with fn_retry_policy_set.';
COMMENT ON COLUMN agentq.retry_policy.scope IS 'default, queue or kind.';
COMMENT ON COLUMN agentq.retry_policy.name IS 'The queue or the kind; empty for the default.';
COMMENT ON COLUMN agentq.retry_policy.max_attempts IS 'Attempts of a job that names none; NULL: as the next wider policy says.';
COMMENT ON COLUMN agentq.retry_policy.backoff IS 'How waits grow: doubling (seconds * 2^(n-1), up to 1,024 times), fixed, linear (seconds * n), exponential (seconds * multiplier^(n-1)), quartic (seconds * n^4) or list (delays); NULL: as the next wider policy says.';
COMMENT ON COLUMN agentq.retry_policy.seconds IS 'The first wait; NULL: queue.retry.backoff_base_sec.';
COMMENT ON COLUMN agentq.retry_policy.multiplier IS 'By what an exponential wait grows; NULL: 2.';
COMMENT ON COLUMN agentq.retry_policy.max_seconds IS 'The longest wait; NULL: none.';
COMMENT ON COLUMN agentq.retry_policy.delays IS 'The waits of a list, in seconds; the last goes on.';
COMMENT ON COLUMN agentq.retry_policy.jitter IS 'Share from 0 to 1 by which a wait may be longer or shorter; NULL: 0.';
COMMENT ON COLUMN agentq.retry_policy.retryable IS 'The only classes that are tried again; NULL: all that are retryable.';
COMMENT ON COLUMN agentq.retry_policy.non_retryable IS 'Classes that are not tried again.';
COMMENT ON COLUMN agentq.retry_policy.requires_idempotency_key IS 'Whether a job without an idempotency key is refused.';
COMMENT ON COLUMN agentq.retry_policy.created_at IS 'When it was made.';
COMMENT ON COLUMN agentq.retry_policy.updated_at IS 'When it was last changed.';

-- A restored dump must win over the rows that CREATE EXTENSION makes.
CREATE FUNCTION agentq_internal.fn_error_class_take() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE agentq.error_class
    SET retryable = NEW.retryable, aliases = NEW.aliases, description = NEW.description, built_in = NEW.built_in,
        updated_at = NEW.updated_at
    WHERE error_class = NEW.error_class;
    IF FOUND THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION agentq_internal.fn_error_class_take() IS 'Trigger: an inserted class that is there already is set instead.';

CREATE TRIGGER error_class_take BEFORE INSERT ON agentq.error_class
    FOR EACH ROW EXECUTE FUNCTION agentq_internal.fn_error_class_take();
CREATE TRIGGER error_class_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON agentq.error_class
    FOR EACH STATEMENT EXECUTE FUNCTION agentq_internal.fn_settings_changed();
CREATE TRIGGER retry_policy_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON agentq.retry_policy
    FOR EACH STATEMENT EXECUTE FUNCTION agentq_internal.fn_settings_changed();
COMMENT ON TRIGGER error_class_take ON agentq.error_class IS 'Lets a restored dump overwrite the built-in classes.';
COMMENT ON TRIGGER error_class_changed ON agentq.error_class IS 'Makes every session read the classes again.';
COMMENT ON TRIGGER retry_policy_changed ON agentq.retry_policy IS 'Makes every session read the policies again.';

INSERT INTO agentq.error_class (error_class, retryable, aliases, description, built_in)
SELECT error_class, retryable, aliases, description, true FROM agentq_internal.fn_error_class_defaults();

SELECT pg_catalog.pg_extension_config_dump('agentq.error_class', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.retry_policy', '');
