-- 0.6.0: rates, budgets, turns by fairness key, and jobs that require capabilities.

ALTER TABLE agentq.limit_rule
    ADD COLUMN rate integer,
    ADD COLUMN per_seconds double precision,
    ADD COLUMN burst integer,
    ADD COLUMN algorithm text,
    ADD COLUMN weight double precision,
    ADD COLUMN max_age_seconds double precision,
    ADD CONSTRAINT limit_rule_rate_check CHECK (rate >= 0 AND per_seconds > 0 AND burst >= 0 AND weight > 0 AND max_age_seconds >= 0),
    ADD CONSTRAINT limit_rule_algorithm_check CHECK (algorithm IN ('token_bucket', 'sliding_window'));
COMMENT ON TABLE agentq.limit_rule IS 'How many jobs with a key may be held at once, or begun in a time. Set with fn_limit_set. A key that ends with * is a rule for each key that begins so.';
COMMENT ON COLUMN agentq.limit_rule.rate IS 'Jobs, or weights of jobs, that may be begun in per_seconds; NULL: any number.';
COMMENT ON COLUMN agentq.limit_rule.per_seconds IS 'In how long; NULL: one second.';
COMMENT ON COLUMN agentq.limit_rule.burst IS 'What a token bucket lets through at once after a pause; NULL: as much as rate.';
COMMENT ON COLUMN agentq.limit_rule.algorithm IS 'token_bucket: a burst, and then an even rate. sliding_window: no more than rate in any stretch of per_seconds. NULL: token_bucket.';
COMMENT ON COLUMN agentq.limit_rule.weight IS 'The share of jobs with this fairness key, beside others; NULL: 1.';
COMMENT ON COLUMN agentq.limit_rule.max_age_seconds IS 'New jobs are deferred while the oldest that may run has waited longer; NULL: for any time.';

-- What has been begun under a rate, as the engine writes it down every second.
CREATE TABLE agentq.limit_gauge (
    limit_key text COLLATE "C" NOT NULL,
    gauge     jsonb NOT NULL,
    saved_at  timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    CONSTRAINT limit_gauge_pkey PRIMARY KEY (limit_key)
) WITH (fillfactor = 50);
COMMENT ON TABLE agentq.limit_gauge IS 'Storage: what has been begun under each rate, and what fn_limit_report was told, so that a restart does not forget it. fn_limit_gauge shows it as it is now.';
COMMENT ON COLUMN agentq.limit_gauge.limit_key IS 'The key.';
COMMENT ON COLUMN agentq.limit_gauge.gauge IS 'What was begun, and until when the key is closed.';
COMMENT ON COLUMN agentq.limit_gauge.saved_at IS 'When it was written down.';

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
    FOR EACH STATEMENT EXECUTE FUNCTION agentq.fn_settings_changed();
COMMENT ON TRIGGER budget_changed ON agentq.budget IS 'Makes every session read the budgets again.';

-- What was spent, one row for each time, until the engine has added it up. Nobody changes a row, so nobody waits.
CREATE TABLE agentq.budget_spent (
    spent_at timestamptz NOT NULL,
    amount   bigint NOT NULL,
    job_id   uuid NOT NULL,
    counter  text COLLATE "C" NOT NULL
);
COMMENT ON TABLE agentq.budget_spent IS 'Storage: what was spent of budgets and has not been added up. v_budget shows the sum.';
COMMENT ON COLUMN agentq.budget_spent.spent_at IS 'When.';
COMMENT ON COLUMN agentq.budget_spent.amount IS 'How much, in millionths of the unit.';
COMMENT ON COLUMN agentq.budget_spent.job_id IS 'By which job.';
COMMENT ON COLUMN agentq.budget_spent.counter IS 'Of what: budget:<unit>:<period>:<when it began>:<key>.';

CREATE TABLE agentq.budget_use (
    counter    text COLLATE "C" NOT NULL,
    amount     bigint NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    CONSTRAINT budget_use_pkey PRIMARY KEY (counter)
) WITH (fillfactor = 50);
COMMENT ON TABLE agentq.budget_use IS 'Storage: what was spent of each budget in each period, as added up by the engine.';
COMMENT ON COLUMN agentq.budget_use.counter IS 'As in budget_spent.';
COMMENT ON COLUMN agentq.budget_use.amount IS 'How much, in millionths of the unit.';
COMMENT ON COLUMN agentq.budget_use.updated_at IS 'When it was last added to.';

SELECT pg_catalog.pg_extension_config_dump('agentq.limit_gauge', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.budget', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.budget_spent', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.budget_use', '');

ALTER TABLE agentq.job
    ADD COLUMN limit_weights integer[],
    ADD COLUMN cost jsonb,
    ADD COLUMN fairness_key text COLLATE "C",
    ADD COLUMN requires text[];
COMMENT ON COLUMN agentq.job.limit_weights IS 'How much of a rate each of limit_keys takes; NULL: 1.';
COMMENT ON COLUMN agentq.job.cost IS 'What it is expected to cost, by unit: reserved of budgets while it is held.';
COMMENT ON COLUMN agentq.job.fairness_key IS 'Jobs of its queue take turns by this key.';
COMMENT ON COLUMN agentq.job.requires IS 'Capabilities that its worker must have.';
ALTER TABLE agentq.job_lease ADD COLUMN reserved text[];
COMMENT ON COLUMN agentq.job_lease.reserved IS 'What it has reserved of budgets: millionths of the unit, a blank, or + once its worker has told of its use, and the counter.';
COMMENT ON TABLE agentq.job_blocked IS 'Storage: jobs that may run now, but for a limit, or for another job with the same ordering key; and jobs in lanes of their own.';
COMMENT ON COLUMN agentq.job_blocked.blocked_by IS 'The key of the limit that had no slot, the budget that was exhausted, order:<key> of an ordering key at whose head is another job, or lane:<queue id>|<capabilities>|<fairness key>: nothing blocks it.';

CREATE OR REPLACE VIEW agentq.v_queue_depth AS
SELECT q.queue,
       q.paused_at IS NOT NULL AS paused,
       r.jobs + b.own AS ready,
       w.jobs AS waiting,
       l.jobs AS held,
       least(r.oldest, b.oldest) AS oldest_ready_at,
       extract(epoch FROM (agentq.fn_clock_now() - least(r.oldest, b.oldest)))::numeric(20, 3) AS oldest_ready_seconds,
       w.next AS next_due_at,
       b.jobs - b.own AS blocked
FROM agentq.queue q
CROSS JOIN LATERAL (SELECT count(*) AS jobs, min(scheduled_at) AS oldest FROM agentq.job_ready
                    WHERE any_queue_id = q.queue_id) r
CROSS JOIN LATERAL (SELECT count(*) AS jobs, count(*) FILTER (WHERE blocked_by LIKE 'lane:%') AS own,
                           min(scheduled_at) FILTER (WHERE blocked_by LIKE 'lane:%') AS oldest
                    FROM agentq.job_blocked WHERE any_queue_id = q.queue_id) b
CROSS JOIN LATERAL (SELECT count(*) AS jobs, min(w.scheduled_at) FILTER (WHERE isfinite(w.scheduled_at)) AS next
                    FROM agentq.job_waiting w JOIN agentq.job j ON j.job_id = w.job_id WHERE j.queue_id = q.queue_id) w
CROSS JOIN LATERAL (SELECT count(*) AS jobs
                    FROM agentq.job_lease l JOIN agentq.job j ON j.job_id = l.job_id WHERE j.queue_id = q.queue_id) l;
COMMENT ON COLUMN agentq.v_queue_depth.blocked IS 'Jobs that wait for a limit or a budget, or for another job with their ordering key.';
CREATE OR REPLACE FUNCTION agentq.fn_queue_verify() RETURNS TABLE (problem text, job_id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH place AS (
        SELECT r.job_id, 'ready' AS place FROM agentq.job_ready r
        UNION ALL SELECT w.job_id, 'waiting' FROM agentq.job_waiting w
        UNION ALL SELECT b.job_id, 'blocked' FROM agentq.job_blocked b
        UNION ALL SELECT l.job_id, 'lease' FROM agentq.job_lease l
        UNION ALL SELECT d.job_id, 'done' FROM agentq.job_done d
    ), counted AS (
        SELECT p.job_id, count(*) AS places, string_agg(p.place, ' and ' ORDER BY p.place) AS names
        FROM place p GROUP BY p.job_id
    )
    SELECT 'the job is in ' || c.names, c.job_id FROM counted c WHERE c.places > 1
    UNION ALL
    SELECT 'a row in ' || c.names || ' has no job', c.job_id
    FROM counted c WHERE NOT EXISTS (SELECT FROM agentq.job j WHERE j.job_id = c.job_id)
    UNION ALL
    SELECT 'the job is nowhere', j.job_id
    FROM agentq.job j WHERE NOT EXISTS (SELECT FROM counted c WHERE c.job_id = j.job_id)
    UNION ALL
    SELECT 'the ready row does not agree with its job', r.job_id
    FROM agentq.job_ready r JOIN agentq.job j ON j.job_id = r.job_id
    WHERE (r.queue_id, r.any_queue_id, r.job_kind, r.priority, r.scheduled_at)
        IS DISTINCT FROM (j.queue_id, j.queue_id, j.job_kind, j.priority, j.scheduled_at)
    UNION ALL
    SELECT 'the waiting row does not agree with its job', w.job_id
    FROM agentq.job_waiting w JOIN agentq.job j ON j.job_id = w.job_id
    WHERE w.scheduled_at IS DISTINCT FROM j.scheduled_at
    UNION ALL
    SELECT 'an ordering key has no job at its head', j.job_id
    FROM agentq.job j WHERE j.ordering_key IS NOT NULL
        AND NOT EXISTS (SELECT FROM agentq.job_done d WHERE d.job_id = j.job_id)
        AND NOT EXISTS (SELECT FROM agentq.job_order o WHERE o.queue_id = j.queue_id AND o.ordering_key = j.ordering_key)
    UNION ALL
    SELECT 'the head of an ordering key is finished, gone or blocked by its own key', o.job_id
    FROM agentq.job_order o WHERE NOT EXISTS (SELECT FROM agentq.job j WHERE j.job_id = o.job_id AND j.ordering_key = o.ordering_key)
        OR EXISTS (SELECT FROM agentq.job_done d WHERE d.job_id = o.job_id)
        OR EXISTS (SELECT FROM agentq.job_blocked b WHERE b.job_id = o.job_id AND b.blocked_by LIKE 'order:%')
    UNION ALL
    SELECT 'the job runs or may run, though another is at the head of its ordering key', j.job_id
    FROM agentq.job j JOIN agentq.job_order o ON o.queue_id = j.queue_id AND o.ordering_key = j.ordering_key AND o.job_id <> j.job_id
    WHERE NOT EXISTS (SELECT FROM agentq.job_done d WHERE d.job_id = j.job_id)
        AND NOT EXISTS (SELECT FROM agentq.job_blocked b WHERE b.job_id = j.job_id AND b.blocked_by NOT LIKE 'lane:%')
    UNION ALL
    SELECT 'the job is not in its own lane', j.job_id
    FROM agentq.job j
    WHERE (j.fairness_key IS NOT NULL OR j.requires IS NOT NULL)
        AND (EXISTS (SELECT FROM agentq.job_ready r WHERE r.job_id = j.job_id)
            OR EXISTS (SELECT FROM agentq.job_blocked b WHERE b.job_id = j.job_id AND b.blocked_by LIKE 'lane:%'
                AND b.blocked_by <> format('lane:%s|%s|%s', j.queue_id, array_to_string(j.requires, ','), j.fairness_key)))
    UNION ALL
    SELECT 'the blocked row does not agree with its job', b.job_id
    FROM agentq.job_blocked b JOIN agentq.job j ON j.job_id = b.job_id
    WHERE (b.queue_id, b.any_queue_id, b.job_kind, b.priority, b.scheduled_at)
        IS DISTINCT FROM (j.queue_id, j.queue_id, j.job_kind, j.priority, j.scheduled_at)
    UNION ALL
    SELECT 'an unfinished job does not hold its idempotency key', j.job_id
    FROM agentq.job j WHERE j.idempotency_key IS NOT NULL
        AND NOT EXISTS (SELECT FROM agentq.job_done d WHERE d.job_id = j.job_id)
        AND NOT EXISTS (SELECT FROM agentq.job_key k WHERE k.idempotency_key = j.idempotency_key AND k.job_id = j.job_id)
    UNION ALL
    SELECT 'a finished job still holds an idempotency key', k.job_id
    FROM agentq.job_key k WHERE NOT EXISTS (SELECT FROM agentq.job j WHERE j.job_id = k.job_id)
        OR EXISTS (SELECT FROM agentq.job_done d WHERE d.job_id = k.job_id)
$$;

CREATE FUNCTION agentq.fn_limit_report(
	"p_key" TEXT,
	"p_retry_at" timestamp with time zone DEFAULT NULL,
	"p_remaining" bigint DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_limit_report_wrapper';
CREATE FUNCTION agentq.fn_limit_gauge(
	"p_key" TEXT,
	"p_weight" INT DEFAULT 1
) RETURNS jsonb
VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_limit_gauge_wrapper';
CREATE FUNCTION agentq.fn_budget_set(
	"p_key" TEXT,
	"p_unit" TEXT,
	"p_period" TEXT,
	"p_budget" jsonb
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_budget_set_wrapper';
CREATE FUNCTION agentq.fn_budget_remove(
	"p_key" TEXT,
	"p_unit" TEXT,
	"p_period" TEXT
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_budget_remove_wrapper';
CREATE FUNCTION agentq.fn_job_usage(
	"p_job_id" uuid,
	"p_lease_owner" TEXT,
	"p_usage" jsonb,
	"p_lease_token" uuid DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_job_usage_wrapper';

COMMENT ON FUNCTION agentq.fn_limit_set IS 'Sets how many jobs with a key may be held at once, may wait, and may be begun in a time, and its share where jobs take turns; a null takes a limit away. Jobs that are held already count.';
COMMENT ON FUNCTION agentq.fn_limit_report IS 'Tells what the other side said of a key, such as a provider: nobody before p_retry_at, or p_remaining is left. All workers heed it at once.';
COMMENT ON FUNCTION agentq.fn_limit_gauge IS 'What is left of the rate of a key, and when it opens for a job of this weight; NULL: nothing is known of it.';
COMMENT ON FUNCTION agentq.fn_budget_set IS 'Sets what jobs with a key may cost in a period: p_budget has amount, and when_exhausted wait or refuse.';
COMMENT ON FUNCTION agentq.fn_budget_remove IS 'Removes a budget.';
COMMENT ON FUNCTION agentq.fn_job_usage IS 'Tells what a held job has really used since its holder last told, by unit, in place of what was reserved.';

CREATE OR REPLACE VIEW agentq.v_limit AS
SELECT k.limit_key, r.limit_key AS rule, r.max_concurrent, r.max_pending, r.taken_by_hand,
       coalesce(k.active, 0) AS active, coalesce(k.blocked, 0) AS blocked, c.counted,
       r.rate, r.per_seconds, (g.gauge->>'left')::bigint AS rate_left, (g.gauge->>'opens_at')::timestamptz AS opens_at
FROM (
    SELECT limit_key, sum(active)::bigint AS active, sum(blocked)::bigint AS blocked
    FROM (
        SELECT limit_key, 0 AS active, 0 AS blocked FROM agentq.limit_rule WHERE limit_key NOT LIKE '%*'
        UNION ALL SELECT unnest(limits), 1, 0 FROM agentq.job_lease WHERE limits IS NOT NULL
        UNION ALL SELECT blocked_by, 0, 1 FROM agentq.job_blocked
        WHERE blocked_by NOT LIKE 'order:%' AND blocked_by NOT LIKE 'lane:%' AND blocked_by NOT LIKE 'budget:%'
        UNION ALL SELECT limit_key, 0, 0 FROM agentq.limit_gauge
    ) all_keys
    GROUP BY limit_key
) k
LEFT JOIN agentq.limit_rule r ON r.limit_key = agentq.fn_limit_rule_of(k.limit_key)
CROSS JOIN LATERAL (SELECT agentq.fn_limit_counted(k.limit_key) AS counted) c
CROSS JOIN LATERAL (SELECT agentq.fn_limit_gauge(k.limit_key) AS gauge) g;
COMMENT ON VIEW agentq.v_limit IS 'Each key of a limit that is in use, or has a rule of its own, with who holds and who waits for its slots.';
COMMENT ON COLUMN agentq.v_limit.limit_key IS 'The key.';
COMMENT ON COLUMN agentq.v_limit.rule IS 'The rule that holds for it; NULL: none any more.';
COMMENT ON COLUMN agentq.v_limit.max_concurrent IS 'Jobs that may be held at once.';
COMMENT ON COLUMN agentq.v_limit.max_pending IS 'Jobs that may wait at once.';
COMMENT ON COLUMN agentq.v_limit.taken_by_hand IS 'Slots that something else than a job holds.';
COMMENT ON COLUMN agentq.v_limit.active IS 'Leases that hold a slot.';
COMMENT ON COLUMN agentq.v_limit.blocked IS 'Jobs that were found when all slots were taken, and wait for one.';
COMMENT ON COLUMN agentq.v_limit.counted IS 'Slots in use as shared memory counts them; NULL: it does not. The same as active, but for claims and acks that are being committed.';
COMMENT ON COLUMN agentq.v_limit.rate IS 'Jobs, or weights of jobs, that may be begun in per_seconds.';
COMMENT ON COLUMN agentq.v_limit.per_seconds IS 'In how long.';
COMMENT ON COLUMN agentq.v_limit.rate_left IS 'How much of the rate is left now; NULL: all of it.';
COMMENT ON COLUMN agentq.v_limit.opens_at IS 'When the next job may be begun, because of the rate or of what fn_limit_report was told; NULL: now.';

CREATE FUNCTION agentq.fn_budget_period(p_period text, p_at timestamptz) RETURNS text LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE p_period WHEN 'hour' THEN to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24') WHEN 'total' THEN ''
                         ELSE to_char(date_trunc(p_period, p_at AT TIME ZONE 'UTC'), 'YYYY-MM-DD') END
$$;
COMMENT ON FUNCTION agentq.fn_budget_period(text, timestamptz) IS 'The name of the period of a budget in which a moment lies.';

CREATE FUNCTION agentq.fn_budget_ends(p_period text, p_at timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN p_period <> 'total'
        THEN (date_trunc(p_period, p_at AT TIME ZONE 'UTC') + ('1 ' || p_period)::interval) AT TIME ZONE 'UTC' END
$$;
COMMENT ON FUNCTION agentq.fn_budget_ends(text, timestamptz) IS 'When the period of a budget ends in which a moment lies; NULL: never.';

CREATE VIEW agentq.v_budget AS
SELECT k.key AS limit_key, k.unit, k.period, k.period_start,
       k.period_start = agentq.fn_budget_period(k.period, agentq.fn_clock_now()) AS is_current,
       b.limit_key AS rule, b.amount, (k.used / 1e6)::numeric(20, 6) AS used, (k.reserved / 1e6)::numeric(20, 6) AS reserved,
       (b.amount - (k.used + k.reserved) / 1e6)::numeric(20, 6) AS remaining, k.waiting,
       CASE WHEN k.period_start = agentq.fn_budget_period(k.period, agentq.fn_clock_now())
           THEN agentq.fn_budget_ends(k.period, agentq.fn_clock_now()) END AS ends_at, b.when_exhausted
FROM (
    SELECT n.name[1] AS unit, n.name[2] AS period, n.name[3] AS period_start, n.name[4] AS key,
           sum(c.used) AS used, sum(c.reserved) AS reserved, sum(c.waiting)::bigint AS waiting
    FROM (
        SELECT counter, amount AS used, 0 AS reserved, 0 AS waiting FROM agentq.budget_use
        UNION ALL SELECT counter, amount, 0, 0 FROM agentq.budget_spent
        UNION ALL SELECT substring(r, '^[0-9]+[ +](.*)$'), 0, substring(r, '^[0-9]+')::bigint, 0
                  FROM agentq.job_lease l CROSS JOIN LATERAL unnest(l.reserved) AS r WHERE l.reserved IS NOT NULL
        UNION ALL SELECT blocked_by, 0, 0, 1 FROM agentq.job_blocked WHERE blocked_by LIKE 'budget:%'
        UNION ALL SELECT concat_ws(':', 'budget', unit, period, agentq.fn_budget_period(period, agentq.fn_clock_now()), limit_key), 0, 0, 0
                  FROM agentq.budget WHERE limit_key NOT LIKE '%*'
    ) c
    CROSS JOIN LATERAL regexp_match(c.counter, '^budget:([^:]*):([^:]*):([^:]*):(.*)$') AS n (name)
    GROUP BY 1, 2, 3, 4
) k
LEFT JOIN LATERAL (
    SELECT b.limit_key, b.amount, b.when_exhausted FROM agentq.budget b
    WHERE b.unit = k.unit AND b.period = k.period
      AND (b.limit_key = k.key OR (b.limit_key LIKE '%*' AND starts_with(k.key, left(b.limit_key, -1))))
    ORDER BY b.limit_key = k.key DESC, length(b.limit_key) DESC LIMIT 1) b ON true;
COMMENT ON VIEW agentq.v_budget IS 'What was used and is reserved of each budget, in this period and in those before.';
COMMENT ON COLUMN agentq.v_budget.limit_key IS 'The key.';
COMMENT ON COLUMN agentq.v_budget.unit IS 'Of what.';
COMMENT ON COLUMN agentq.v_budget.period IS 'hour, day, week, month or total.';
COMMENT ON COLUMN agentq.v_budget.period_start IS 'When it began, in UTC.';
COMMENT ON COLUMN agentq.v_budget.is_current IS 'Whether it is the present one.';
COMMENT ON COLUMN agentq.v_budget.rule IS 'The budget that holds for the key; NULL: none any more.';
COMMENT ON COLUMN agentq.v_budget.amount IS 'How much there is in a period.';
COMMENT ON COLUMN agentq.v_budget.used IS 'What jobs have used.';
COMMENT ON COLUMN agentq.v_budget.reserved IS 'What jobs that are held are still expected to use.';
COMMENT ON COLUMN agentq.v_budget.remaining IS 'What is left; below 0 if jobs have used more than they were expected to.';
COMMENT ON COLUMN agentq.v_budget.waiting IS 'Jobs that were found when not enough was left, and wait.';
COMMENT ON COLUMN agentq.v_budget.ends_at IS 'When the next period begins; NULL: never, or it has begun.';
COMMENT ON COLUMN agentq.v_budget.when_exhausted IS 'wait or refuse.';

CREATE FUNCTION agentq.fn_capable_workers(p_requires text[]) RETURNS TABLE (executor_name text, last_tick_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT h.executor_name, h.last_tick_at FROM agentq.queue_heartbeat h
    WHERE agentq.fn_clock_now() - h.last_tick_at
            <= make_interval(secs => agentq.fn_config_get('queue.heartbeat.stale_threshold_seconds')::integer)
      AND h.metadata->'capabilities' @> to_jsonb(coalesce(p_requires, '{}'))
    ORDER BY h.executor_name
$$;
COMMENT ON FUNCTION agentq.fn_capable_workers(text[]) IS 'The executors that are alive and have announced all of these capabilities with their heartbeat.';

CREATE OR REPLACE FUNCTION agentq.fn_job_explain(p_job_id uuid) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_now   timestamptz := agentq.fn_clock_now();
    v_job   record;
    v_lease agentq.job_lease;
    v_gates jsonb := '[]';
    v_at    timestamptz;
    v_ahead bigint;
    v_key   record;
BEGIN
    SELECT j.*, q.queue, q.paused_at, q.paused_reason, v.state, v.finished_at, b.blocked_by
    INTO v_job
    FROM agentq.job j
    JOIN agentq.queue q ON q.queue_id = j.queue_id
    JOIN agentq.job_queue v ON v.job_id = j.job_id
    LEFT JOIN agentq.job_blocked b ON b.job_id = j.job_id
    WHERE j.job_id = p_job_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no job %', coalesce(p_job_id::text, 'NULL')
            USING ERRCODE = 'no_data_found', HINT = 'It may have been purged; its dead letter, if any, is in agentq.job_dead_letter.';
    END IF;
    IF v_job.finished_at IS NOT NULL THEN
        RETURN jsonb_build_object('ok', true, 'code', 'finished', 'job_id', p_job_id, 'state', v_job.state,
            'finished_at', v_job.finished_at, 'gates', '[]'::jsonb);
    END IF;
    SELECT * INTO v_lease FROM agentq.job_lease WHERE job_id = p_job_id;
    IF FOUND THEN
        RETURN jsonb_build_object('ok', true, 'code', 'held', 'job_id', p_job_id, 'state', v_job.state,
            'lease_owner', v_lease.lease_owner, 'lease_until', v_lease.lease_until, 'held_since', v_lease.picked_at,
            'cancel_requested', v_lease.cancel_reason IS NOT NULL, 'gates', '[]'::jsonb);
    END IF;

    -- From the widest gate to the narrowest; each says what would open it.
    IF NOT agentq.fn_config_get('queue.job_substrate.enabled')::boolean THEN
        v_gates := v_gates || jsonb_build_object('gate', 'gate_closed', 'message', 'queue.job_substrate.enabled is false',
            'hint', 'Open it with fn_config_set.');
    END IF;
    IF v_job.paused_at IS NOT NULL THEN
        v_gates := v_gates || jsonb_build_object('gate', 'paused', 'message', format('the queue %s is paused', v_job.queue),
            'since', v_job.paused_at, 'reason', v_job.paused_reason, 'hint', 'Resume it with fn_queue_resume.');
    END IF;
    IF v_job.parked IS NOT NULL THEN
        v_gates := v_gates || jsonb_build_object('gate', 'parked', 'message', 'nobody knows what became of its last attempt',
            'hint', 'Find out, and say so with fn_job_reconcile.');
    ELSIF v_job.scheduled_at > v_now AND v_job.state = 'retry_waiting' THEN
        v_at := v_job.scheduled_at;
        v_gates := v_gates || jsonb_build_object('gate', 'retry', 'message',
            format('attempt %s failed, and the next waits', v_job.attempts), 'until', v_at, 'error', left(v_job.last_error, 500));
    ELSIF v_job.scheduled_at > v_now THEN
        v_at := v_job.scheduled_at;
        v_gates := v_gates || jsonb_build_object('gate', 'schedule', 'message', 'its time has not come', 'until', v_at);
    END IF;
    IF v_job.blocked_by LIKE 'order:%' THEN
        v_gates := v_gates || (
            SELECT jsonb_build_object('gate', 'ordering_key', 'message',
                format('another job with the ordering key %s comes first', v_job.ordering_key),
                'ordering_key', v_job.ordering_key, 'ahead', h.job_id, 'ahead_state', h.state, 'ahead_until', h.lease_until,
                'hint', 'It runs when that job has finished.')
            FROM agentq.job_order o JOIN agentq.job_queue h ON h.job_id = o.job_id
            WHERE o.queue_id = v_job.queue_id AND o.ordering_key = v_job.ordering_key);
    END IF;
    v_gates := v_gates || coalesce((
        SELECT jsonb_agg(jsonb_build_object('gate', 'limit', 'message',
                format('all %s slots of %s are taken', greatest(r.max_concurrent - r.taken_by_hand, 0), k.key),
                'limit_key', k.key, 'max_concurrent', r.max_concurrent, 'taken_by_hand', r.taken_by_hand, 'active', h.active,
                'held_by', h.held_by, 'until', h.until, 'hint', 'It runs when one of them ends, or when fn_limit_set raises the limit.')
            ORDER BY k.key)
        FROM (SELECT 'global' AS key UNION ALL SELECT 'queue:' || v_job.queue UNION ALL SELECT 'kind:' || v_job.job_kind
              UNION ALL SELECT unnest(v_job.limit_keys)) k
        JOIN agentq.limit_rule r ON r.limit_key = agentq.fn_limit_rule_of(k.key) AND r.max_concurrent IS NOT NULL
        CROSS JOIN LATERAL (
            SELECT count(*) AS active, min(l.lease_until) AS until,
                   (SELECT jsonb_agg(jsonb_build_object('job_id', t.job_id, 'lease_owner', t.lease_owner, 'lease_until', t.lease_until))
                    FROM (SELECT * FROM agentq.job_lease t WHERE k.key = ANY (t.limits) ORDER BY t.lease_until LIMIT 10) t) AS held_by
            FROM agentq.job_lease l WHERE k.key = ANY (l.limits)) h
        WHERE h.active >= greatest(r.max_concurrent - r.taken_by_hand, 0)), '[]');
    -- A rate, or what the other side said; and budgets.
    FOR v_key IN
        SELECT k.key, k.weight, g.gauge
        FROM (SELECT 'global' AS key, 1 AS weight UNION ALL SELECT 'queue:' || v_job.queue, 1 UNION ALL SELECT 'kind:' || v_job.job_kind, 1
              UNION ALL SELECT u.key, coalesce(u.weight, 1) FROM unnest(v_job.limit_keys, v_job.limit_weights) AS u (key, weight)) k
        CROSS JOIN LATERAL (SELECT agentq.fn_limit_gauge(k.key, k.weight) AS gauge) g
        WHERE NOT (g.gauge->>'open')::boolean
        ORDER BY k.key
    LOOP
        v_at := greatest(v_at, (v_key.gauge->>'opens_at')::timestamptz);
        v_gates := v_gates || jsonb_build_object('gate', 'rate', 'message', format('the rate of %s is used up, or its other side has closed', v_key.key),
            'limit_key', v_key.key, 'weight', v_key.weight, 'left', v_key.gauge->'left', 'until', v_key.gauge->'opens_at',
            'hint', 'It opens by itself; fn_limit_set changes the rate, fn_limit_report what the other side said.');
    END LOOP;
    FOR v_key IN
        SELECT b.*, coalesce((v_job.cost->>b.unit)::numeric, 0) AS cost FROM agentq.v_budget b
        WHERE b.is_current AND b.rule IS NOT NULL
          AND b.limit_key = ANY (ARRAY['global', 'queue:' || v_job.queue, 'kind:' || v_job.job_kind] || v_job.limit_keys)
          AND b.remaining < greatest(coalesce((v_job.cost->>b.unit)::numeric, 0), 0.000001)
        ORDER BY b.limit_key, b.unit
    LOOP
        v_at := greatest(v_at, v_key.ends_at);
        v_gates := v_gates || jsonb_build_object('gate', 'budget', 'message', format('the budget of %s %s has %s %s left, and the job costs %s',
                v_key.limit_key, CASE WHEN v_key.period = 'total' THEN 'in all' ELSE 'for each ' || v_key.period END, v_key.remaining, v_key.unit, v_key.cost),
            'limit_key', v_key.limit_key, 'unit', v_key.unit, 'period', v_key.period, 'amount', v_key.amount, 'used', v_key.used,
            'reserved', v_key.reserved, 'cost', v_key.cost, 'until', v_key.ends_at,
            'hint', 'It runs in the next period, when a job gives back what it had reserved, or when fn_budget_set raises the budget.');
    END LOOP;
    IF v_job.requires IS NOT NULL AND NOT EXISTS (SELECT FROM agentq.fn_capable_workers(v_job.requires)) THEN
        v_gates := v_gates || jsonb_build_object('gate', 'capability', 'message',
            format('no worker that is alive has announced all of %s', array_to_string(v_job.requires, ', ')),
            'requires', to_jsonb(v_job.requires),
            'hint', 'Start one, and let its heartbeat announce them in the metadata: {"capabilities": [...]}.');
    END IF;
    IF least(v_job.finish_by, CASE WHEN v_job.picked_at IS NULL THEN v_job.start_by END) <= v_now THEN
        v_gates := v_gates || jsonb_build_object('gate', 'deadline', 'message', 'it has missed its deadline and will be given up',
            'start_by', v_job.start_by, 'finish_by', v_job.finish_by);
    END IF;
    -- Nothing but other jobs. Counted up to a bound, so that a long queue does not make this slow.
    IF v_gates = '[]' THEN
        SELECT count(*) INTO v_ahead FROM (
            SELECT FROM agentq.job_ready r
            WHERE v_job.blocked_by IS NULL AND r.any_queue_id = v_job.queue_id
              AND (r.priority, r.scheduled_at, r.job_id) < (v_job.priority, v_job.scheduled_at, p_job_id)
            UNION ALL
            SELECT FROM agentq.job_blocked r
            WHERE r.blocked_by = v_job.blocked_by AND r.any_queue_id = v_job.queue_id
              AND (r.priority, r.scheduled_at, r.job_id) < (v_job.priority, v_job.scheduled_at, p_job_id)
            LIMIT 1000) a;
        IF NOT EXISTS (SELECT FROM agentq.job_lease) AND NOT EXISTS (
            SELECT FROM agentq.queue_heartbeat h WHERE v_now - h.last_tick_at
                <= make_interval(secs => agentq.fn_config_get('queue.heartbeat.stale_threshold_seconds')::integer)) THEN
            v_gates := v_gates || jsonb_build_object('gate', 'no_worker', 'message', 'no job is held and no executor has given a sign of life',
                'hint', 'Start a worker that claims from this queue.');
        END IF;
    END IF;
    RETURN jsonb_build_object('ok', true, 'code', CASE WHEN v_gates = '[]' THEN 'ready' ELSE 'waiting' END,
        'job_id', p_job_id, 'state', v_job.state, 'queue', v_job.queue, 'gates', v_gates,
        'may_run_at', CASE WHEN v_gates = '[]' THEN v_now ELSE v_at END, 'ahead', v_ahead);
END $$;
COMMENT ON FUNCTION agentq.fn_job_explain(uuid) IS 'Why a job does not run: every gate that holds it, who holds its slots, which job is ahead, and when it may run.';

INSERT INTO agentq.config (key, value, description)
SELECT key, value, description FROM agentq.fn_config_defaults() d
WHERE NOT EXISTS (SELECT FROM agentq.config c WHERE c.key = d.key);
INSERT INTO agentq.engine_chore (chore, every_seconds, about)
SELECT chore, every_seconds, about FROM agentq.fn_engine_chore_defaults() d
WHERE NOT EXISTS (SELECT FROM agentq.engine_chore c WHERE c.chore = d.chore);

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA agentq FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA agentq FROM PUBLIC;

INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'SELECT', object
FROM unnest(ARRAY['reader', 'operator']) AS level CROSS JOIN unnest(ARRAY['budget', 'v_budget']) AS object;
INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'EXECUTE', object
FROM (VALUES
    ('worker', ARRAY['fn_job_usage', 'fn_limit_report', 'fn_limit_gauge']),
    ('reader', ARRAY['fn_limit_gauge', 'fn_budget_period', 'fn_budget_ends', 'fn_capable_workers']),
    ('operator', ARRAY['fn_job_usage', 'fn_limit_report', 'fn_limit_gauge', 'fn_budget_set', 'fn_budget_remove', 'fn_budget_period',
        'fn_budget_ends', 'fn_capable_workers'])
) AS l(level, objects)
CROSS JOIN LATERAL unnest(l.objects) AS object;
-- Roles that have a level get what it has gained.
UPDATE agentq.access_grant SET granted_at = granted_at;
