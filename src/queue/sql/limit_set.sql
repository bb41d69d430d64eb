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
