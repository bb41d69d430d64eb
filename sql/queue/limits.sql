-- How many jobs may run at once, by key.
CREATE TABLE agentq.limit_rule (
    limit_key       text COLLATE "C" NOT NULL,
    max_concurrent  integer,
    max_pending     integer,
    taken_by_hand   integer NOT NULL DEFAULT 0,
    pending_by_hand integer NOT NULL DEFAULT 0,
    description     text,
    created_at      timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    updated_at      timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    CONSTRAINT limit_rule_pkey PRIMARY KEY (limit_key),
    CONSTRAINT limit_rule_key_check CHECK (btrim(limit_key) <> '' AND octet_length(limit_key) <= 100),
    CONSTRAINT limit_rule_numbers_check CHECK (max_concurrent >= 0 AND max_pending >= 0 AND taken_by_hand >= 0 AND pending_by_hand >= 0)
);
COMMENT ON TABLE agentq.limit_rule IS 'How many jobs with a key may be held at once. Set with fn_limit_set. A key that ends with * is a rule for each key that begins so.';
COMMENT ON COLUMN agentq.limit_rule.limit_key IS 'global, queue:<name>, kind:<name>, worker_type:<type>, worker:<type>:<owner>, or a key that jobs are enqueued with, such as tenant:42 or venture:7.';
COMMENT ON COLUMN agentq.limit_rule.max_concurrent IS 'Jobs that may be held at once; NULL: any number.';
COMMENT ON COLUMN agentq.limit_rule.max_pending IS 'Jobs that may wait at once, as fn_admission_check sees it; NULL: any number.';
COMMENT ON COLUMN agentq.limit_rule.taken_by_hand IS 'Slots that something else than a job holds, as fn_adjust_concurrency says.';
COMMENT ON COLUMN agentq.limit_rule.pending_by_hand IS 'Things that wait and are no jobs, as fn_adjust_concurrency says.';
COMMENT ON COLUMN agentq.limit_rule.description IS 'What it is for.';
COMMENT ON COLUMN agentq.limit_rule.created_at IS 'When it was made.';
COMMENT ON COLUMN agentq.limit_rule.updated_at IS 'When it was last changed.';

CREATE TRIGGER limit_rule_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON agentq.limit_rule
    FOR EACH STATEMENT EXECUTE FUNCTION agentq.fn_settings_changed();
COMMENT ON TRIGGER limit_rule_changed ON agentq.limit_rule IS 'Makes every session read the rules again.';

SELECT pg_catalog.pg_extension_config_dump('agentq.limit_rule', '');
