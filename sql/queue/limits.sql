-- How many jobs may run at once, or be begun in a time, by key.
CREATE TABLE agentq.limit_rule (
    limit_key       text COLLATE "C" NOT NULL,
    max_concurrent  integer,
    max_pending     integer,
    taken_by_hand   integer NOT NULL DEFAULT 0,
    pending_by_hand integer NOT NULL DEFAULT 0,
    description     text,
    created_at      timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    updated_at      timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    rate            integer,
    per_seconds     double precision,
    burst           integer,
    algorithm       text,
    weight          double precision,
    max_age_seconds double precision,
    CONSTRAINT limit_rule_pkey PRIMARY KEY (limit_key),
    CONSTRAINT limit_rule_key_check CHECK (btrim(limit_key) <> '' AND octet_length(limit_key) <= 100),
    CONSTRAINT limit_rule_numbers_check CHECK (max_concurrent >= 0 AND max_pending >= 0 AND taken_by_hand >= 0 AND pending_by_hand >= 0),
    CONSTRAINT limit_rule_rate_check CHECK (rate >= 0 AND per_seconds > 0 AND burst >= 0 AND weight > 0 AND max_age_seconds >= 0),
    CONSTRAINT limit_rule_algorithm_check CHECK (algorithm IN ('token_bucket', 'sliding_window'))
);
COMMENT ON TABLE agentq.limit_rule IS 'How many jobs with a key may be held at once, or begun in a time. Set with fn_limit_set. A key that ends with * is a rule for each key that begins so.';
COMMENT ON COLUMN agentq.limit_rule.limit_key IS 'global, queue:<name>, kind:<name>, worker_type:<type>, worker:<type>:<owner>, or a key that jobs are enqueued with, such as tenant:42 or venture:7.';
COMMENT ON COLUMN agentq.limit_rule.max_concurrent IS 'Jobs that may be held at once; NULL: any number.';
COMMENT ON COLUMN agentq.limit_rule.max_pending IS 'Jobs that may wait at once, as fn_admission_check sees it; NULL: any number.';
COMMENT ON COLUMN agentq.limit_rule.taken_by_hand IS 'Slots that something else than a job holds, as fn_adjust_concurrency says.';
COMMENT ON COLUMN agentq.limit_rule.pending_by_hand IS 'Things that wait and are no jobs, as fn_adjust_concurrency says.';
COMMENT ON COLUMN agentq.limit_rule.description IS 'What it is for.';
COMMENT ON COLUMN agentq.limit_rule.created_at IS 'When it was made.';
COMMENT ON COLUMN agentq.limit_rule.updated_at IS 'When it was last changed.';
COMMENT ON COLUMN agentq.limit_rule.rate IS 'Jobs, or weights of jobs, that may be begun in per_seconds; NULL: any number.';
COMMENT ON COLUMN agentq.limit_rule.per_seconds IS 'In how long; NULL: one second.';
COMMENT ON COLUMN agentq.limit_rule.burst IS 'What a token bucket lets through at once after a pause; NULL: as much as rate.';
COMMENT ON COLUMN agentq.limit_rule.algorithm IS 'token_bucket: a burst, and then an even rate. sliding_window: no more than rate in any stretch of per_seconds. NULL: token_bucket.';
COMMENT ON COLUMN agentq.limit_rule.weight IS 'The share of jobs with this fairness key, beside others; NULL: 1.';
COMMENT ON COLUMN agentq.limit_rule.max_age_seconds IS 'New jobs are deferred while the oldest that may run has waited longer; NULL: for any time.';

CREATE TRIGGER limit_rule_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON agentq.limit_rule
    FOR EACH STATEMENT EXECUTE FUNCTION agentq_internal.fn_settings_changed();
COMMENT ON TRIGGER limit_rule_changed ON agentq.limit_rule IS 'Makes every session read the rules again.';

SELECT pg_catalog.pg_extension_config_dump('agentq.limit_rule', '');

-- What has been begun under a rate, as the engine writes it down every second.
CREATE TABLE agentq_internal.limit_gauge (
    limit_key text COLLATE "C" NOT NULL,
    gauge     jsonb NOT NULL,
    saved_at  timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    CONSTRAINT limit_gauge_pkey PRIMARY KEY (limit_key)
) WITH (fillfactor = 50);
COMMENT ON TABLE agentq_internal.limit_gauge IS 'Storage: what has been begun under each rate, and what fn_limit_report was told, so that a restart does not forget it. fn_limit_gauge shows it as it is now.';
COMMENT ON COLUMN agentq_internal.limit_gauge.limit_key IS 'The key.';
COMMENT ON COLUMN agentq_internal.limit_gauge.gauge IS 'What was begun, and until when the key is closed.';
COMMENT ON COLUMN agentq_internal.limit_gauge.saved_at IS 'When it was written down.';

-- What jobs with a key may cost in a period.
CREATE TABLE agentq.budget (
    limit_key      text COLLATE "C" NOT NULL,
    unit           text COLLATE "C" NOT NULL,
    period         text NOT NULL,
    amount         numeric NOT NULL,
    when_exhausted text NOT NULL DEFAULT 'wait',
    description    text,
    created_at     timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    updated_at     timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    CONSTRAINT budget_pkey PRIMARY KEY (limit_key, unit, period),
    CONSTRAINT budget_key_check CHECK (btrim(limit_key) <> '' AND octet_length(limit_key) <= 100),
    CONSTRAINT budget_unit_check CHECK (unit ~ '^[a-z0-9_]{1,30}$'),
    CONSTRAINT budget_period_check CHECK (period IN ('hour', 'day', 'week', 'month', 'total')),
    CONSTRAINT budget_amount_check CHECK (amount BETWEEN 0 AND 1e12),
    CONSTRAINT budget_when_exhausted_check CHECK (when_exhausted IN ('wait', 'refuse'))
);
COMMENT ON TABLE agentq.budget IS 'What jobs with a key may cost in a period. Set with fn_budget_set. A key that ends with * is a budget for each key that begins so.';
COMMENT ON COLUMN agentq.budget.limit_key IS 'As in limit_rule.';
COMMENT ON COLUMN agentq.budget.unit IS 'Of what: tokens, usd, tool_calls, or any other.';
COMMENT ON COLUMN agentq.budget.period IS 'hour, day, week (from Monday) or month, in UTC, or total: for ever.';
COMMENT ON COLUMN agentq.budget.amount IS 'How much.';
COMMENT ON COLUMN agentq.budget.when_exhausted IS 'wait: jobs wait for the next period. refuse: new ones are refused besides.';
COMMENT ON COLUMN agentq.budget.description IS 'What it is for.';
COMMENT ON COLUMN agentq.budget.created_at IS 'When it was made.';
COMMENT ON COLUMN agentq.budget.updated_at IS 'When it was last changed.';

CREATE TRIGGER budget_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON agentq.budget
    FOR EACH STATEMENT EXECUTE FUNCTION agentq_internal.fn_settings_changed();
COMMENT ON TRIGGER budget_changed ON agentq.budget IS 'Makes every session read the budgets again.';

-- What was spent, one row for each time, until the engine has added it up. Nobody changes a row, so nobody waits.
CREATE TABLE agentq_internal.budget_spent (
    spent_at timestamptz NOT NULL,
    amount   bigint NOT NULL,
    job_id   uuid NOT NULL,
    counter  text COLLATE "C" NOT NULL
);
COMMENT ON TABLE agentq_internal.budget_spent IS 'Storage: what was spent of budgets and has not been added up. v_budget shows the sum.';
COMMENT ON COLUMN agentq_internal.budget_spent.spent_at IS 'When.';
COMMENT ON COLUMN agentq_internal.budget_spent.amount IS 'How much, in millionths of the unit.';
COMMENT ON COLUMN agentq_internal.budget_spent.job_id IS 'By which job.';
COMMENT ON COLUMN agentq_internal.budget_spent.counter IS 'Of what: budget:<unit>:<period>:<when it began>:<key>.';

CREATE TABLE agentq_internal.budget_use (
    counter    text COLLATE "C" NOT NULL,
    amount     bigint NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    CONSTRAINT budget_use_pkey PRIMARY KEY (counter)
) WITH (fillfactor = 50);
COMMENT ON TABLE agentq_internal.budget_use IS 'Storage: what was spent of each budget in each period, as added up by the engine.';
COMMENT ON COLUMN agentq_internal.budget_use.counter IS 'As in budget_spent.';
COMMENT ON COLUMN agentq_internal.budget_use.amount IS 'How much, in millionths of the unit.';
COMMENT ON COLUMN agentq_internal.budget_use.updated_at IS 'When it was last added to.';

SELECT pg_catalog.pg_extension_config_dump('agentq_internal.limit_gauge', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.budget', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.budget_spent', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.budget_use', '');
