-- name: limit_set(limit_key text, terms jsonb, now timestamptz)
INSERT INTO agentq.limit_rule AS r (limit_key, max_concurrent, max_pending, rate, per_seconds, burst, algorithm, weight, max_age_seconds,
    description, created_at, updated_at)
VALUES ($1, ($2->>'max_concurrent')::integer, ($2->>'max_pending')::integer, ($2->>'rate')::integer,
    ($2->>'per_seconds')::double precision, ($2->>'burst')::integer, $2->>'algorithm', ($2->>'weight')::double precision,
    ($2->>'max_age_seconds')::double precision,
    $2->>'description', $3, $3)
ON CONFLICT (limit_key) DO UPDATE
SET max_concurrent = CASE WHEN $2 ? 'max_concurrent' THEN excluded.max_concurrent ELSE r.max_concurrent END,
    max_pending = CASE WHEN $2 ? 'max_pending' THEN excluded.max_pending ELSE r.max_pending END,
    rate = CASE WHEN $2 ? 'rate' THEN excluded.rate ELSE r.rate END,
    per_seconds = CASE WHEN $2 ? 'per_seconds' THEN excluded.per_seconds ELSE r.per_seconds END,
    burst = CASE WHEN $2 ? 'burst' THEN excluded.burst ELSE r.burst END,
    algorithm = CASE WHEN $2 ? 'algorithm' THEN excluded.algorithm ELSE r.algorithm END,
    weight = CASE WHEN $2 ? 'weight' THEN excluded.weight ELSE r.weight END,
    max_age_seconds = CASE WHEN $2 ? 'max_age_seconds' THEN excluded.max_age_seconds ELSE r.max_age_seconds END,
    description = CASE WHEN $2 ? 'description' THEN excluded.description ELSE r.description END,
    updated_at = excluded.updated_at
RETURNING jsonb_build_object('ok', true, 'code', CASE WHEN r.xmax = 0 THEN 'created' ELSE 'updated' END,
    'key', r.limit_key, 'max_concurrent', r.max_concurrent, 'max_pending', r.max_pending, 'rate', r.rate,
    'per_seconds', r.per_seconds, 'burst', r.burst, 'algorithm', r.algorithm, 'weight', r.weight,
    'max_age_seconds', r.max_age_seconds, 'description', r.description)

-- name: limit_preset(limit_key text, max_concurrent int4, max_pending int4, description text, now timestamptz)
INSERT INTO agentq.limit_rule (limit_key, max_concurrent, max_pending, description, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $5)
ON CONFLICT (limit_key) DO NOTHING RETURNING true

-- name: limit_known(limit_keys text[])
SELECT limit_key FROM agentq.limit_rule WHERE limit_key = ANY ($1)

-- name: limit_mark() freely
-- Which keys have a rule is asked once for each key, and not for each lease that has it.
WITH held AS MATERIALIZED (
    SELECT h.job_id, h.limits, k.key
    FROM agentq_internal.job_lease h
    JOIN agentq_internal.job j ON j.job_id = h.job_id
    JOIN agentq.queue q ON q.queue_id = j.queue_id
    CROSS JOIN LATERAL (
        SELECT 'global' AS key
        UNION ALL SELECT 'queue:' || q.queue
        UNION ALL SELECT 'kind:' || j.job_kind
        UNION ALL SELECT unnest(j.limit_keys)
    ) k
    WHERE octet_length(k.key) <= 100
), patterns AS MATERIALIZED (
    SELECT left(limit_key, -1) AS beginning FROM agentq.limit_rule WHERE limit_key LIKE '%*'
), ruled AS MATERIALIZED (
    SELECT k.key FROM (SELECT DISTINCT key FROM held) k
    WHERE k.key IN (SELECT limit_key FROM agentq.limit_rule)
       OR EXISTS (SELECT FROM patterns p WHERE starts_with(k.key, p.beginning))
)
UPDATE agentq_internal.job_lease l
SET limits = ARRAY(SELECT k FROM unnest(l.limits) k UNION SELECT k FROM unnest(n.keys) k)
FROM (
    SELECT h.job_id, array_agg(h.key) AS keys
    FROM held h JOIN ruled r ON r.key = h.key
    WHERE NOT coalesce(h.key = ANY (h.limits), false)
    GROUP BY h.job_id
) n
WHERE l.job_id = n.job_id

-- name: limit_remove(key text)
DELETE FROM agentq.limit_rule WHERE limit_key = $1 RETURNING 1

-- name: limitless(no_budgets bool)
DELETE FROM agentq_internal.job_line b USING agentq_internal.job j
WHERE j.job_id = b.job_id AND b.line NOT LIKE 'order:%' AND b.line NOT LIKE 'fair:%'
  AND CASE WHEN b.line LIKE 'budget:%' THEN $1 ELSE agentq_internal.fn_limit_rule_of(b.line) IS NULL END
RETURNING j.job_id, j.queue_id, j.job_kind::text, j.priority::integer, j.scheduled_at

-- name: reports_forget(key text)
DELETE FROM agentq.limit_rule
WHERE description = 'made by fn_limit_report' AND starts_with(limit_key, left($1, -1))
  AND max_concurrent IS NULL AND max_pending IS NULL AND rate IS NULL AND max_age_seconds IS NULL

-- name: rules_lock()
SELECT limit_key FROM agentq.limit_rule ORDER BY limit_key FOR UPDATE

-- name: budgets_lock()
SELECT limit_key FROM agentq.budget ORDER BY limit_key, unit, period FOR UPDATE
