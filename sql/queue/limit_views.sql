-- What the rules of limit_rule come to.
CREATE FUNCTION agentq_internal.fn_limit_rule_of(p_key text) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.limit_key FROM agentq.limit_rule r
    WHERE r.limit_key = p_key OR (r.limit_key LIKE '%*' AND starts_with(p_key, left(r.limit_key, -1)))
    ORDER BY r.limit_key = p_key DESC, length(r.limit_key) DESC
    LIMIT 1
$$;
COMMENT ON FUNCTION agentq_internal.fn_limit_rule_of(text) IS 'The rule that holds for a key: its own, or that of the longest pattern.';

CREATE FUNCTION agentq_internal.fn_budget_period(p_period text, p_at timestamptz) RETURNS text LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE p_period WHEN 'hour' THEN to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24') WHEN 'total' THEN ''
                         ELSE to_char(date_trunc(p_period, p_at AT TIME ZONE 'UTC'), 'YYYY-MM-DD') END
$$;
COMMENT ON FUNCTION agentq_internal.fn_budget_period(text, timestamptz) IS 'The name of the period of a budget in which a moment lies.';

CREATE FUNCTION agentq_internal.fn_budget_ends(p_period text, p_at timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN p_period <> 'total'
        THEN (date_trunc(p_period, p_at AT TIME ZONE 'UTC') + ('1 ' || p_period)::interval) AT TIME ZONE 'UTC' END
$$;
COMMENT ON FUNCTION agentq_internal.fn_budget_ends(text, timestamptz) IS 'When the period of a budget ends in which a moment lies; NULL: never.';

CREATE VIEW agentq.v_budget AS
SELECT k.key AS limit_key, k.unit, k.period, k.period_start,
       k.period_start = agentq_internal.fn_budget_period(k.period, agentq.fn_clock_now()) AS is_current,
       b.limit_key AS rule, b.amount, (k.used / 1e6)::numeric(20, 6) AS used, (k.reserved / 1e6)::numeric(20, 6) AS reserved,
       (b.amount - (k.used + k.reserved) / 1e6)::numeric(20, 6) AS remaining, k.waiting,
       CASE WHEN k.period_start = agentq_internal.fn_budget_period(k.period, agentq.fn_clock_now())
           THEN agentq_internal.fn_budget_ends(k.period, agentq.fn_clock_now()) END AS ends_at, b.when_exhausted
FROM (
    SELECT n.name[1] AS unit, n.name[2] AS period, n.name[3] AS period_start, n.name[4] AS key,
           sum(c.used) AS used, sum(c.reserved) AS reserved, sum(c.waiting)::bigint AS waiting
    FROM (
        SELECT counter, amount AS used, 0 AS reserved, 0 AS waiting FROM agentq_internal.budget_use
        UNION ALL SELECT counter, amount, 0, 0 FROM agentq_internal.budget_spent
        UNION ALL SELECT substring(r, '^[0-9]+[ +](.*)$'), 0, substring(r, '^[0-9]+')::bigint, 0
                  FROM agentq_internal.job_lease l CROSS JOIN LATERAL unnest(l.reserved) AS r WHERE l.reserved IS NOT NULL
        UNION ALL SELECT line, 0, 0, 1 FROM agentq_internal.job_line WHERE line LIKE 'budget:%'
        UNION ALL SELECT concat_ws(':', 'budget', unit, period, agentq_internal.fn_budget_period(period, agentq.fn_clock_now()), limit_key), 0, 0, 0
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
COMMENT ON COLUMN agentq.v_budget.waiting IS 'Jobs that stand in the line of this budget: a claim found them when not enough was left.';
COMMENT ON COLUMN agentq.v_budget.ends_at IS 'When the next period begins; NULL: never, or it has begun.';
COMMENT ON COLUMN agentq.v_budget.when_exhausted IS 'wait or refuse.';
