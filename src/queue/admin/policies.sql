-- name: class_set(name text, retryable bool, description text, aliases text[], now timestamptz)
WITH changed AS (
    UPDATE agentq.error_class
    SET retryable = $2, aliases = coalesce($4, aliases), description = coalesce($3, description), updated_at = $5
    WHERE error_class = $1
    RETURNING *
), added AS (
    INSERT INTO agentq.error_class (error_class, retryable, aliases, description, updated_at)
    SELECT $1, $2, coalesce($4, '{}'), $3, $5 WHERE NOT EXISTS (SELECT FROM changed)
    RETURNING *
)
SELECT jsonb_build_object('ok', true, 'code', CASE WHEN EXISTS (SELECT FROM added) THEN 'created' ELSE 'updated' END)
    || to_jsonb(c) - ARRAY['updated_at', 'built_in']
FROM (SELECT * FROM changed UNION ALL SELECT * FROM added) c

-- name: class_remove(name text)
DELETE FROM agentq.error_class WHERE error_class = $1 AND NOT built_in RETURNING 1

-- name: policy_set(scope text, name text, policy jsonb, now timestamptz)
INSERT INTO agentq.retry_policy AS p (scope, name, max_attempts, backoff, seconds, multiplier, max_seconds, delays, jitter,
    retryable, non_retryable, requires_idempotency_key, created_at, updated_at)
SELECT $1, $2,
       CASE WHEN $3 ? 'max_attempts' THEN n.max_attempts ELSE old.max_attempts END,
       CASE WHEN $3 ? 'backoff' THEN n.backoff ELSE old.backoff END,
       CASE WHEN $3 ? 'seconds' THEN n.seconds ELSE old.seconds END,
       CASE WHEN $3 ? 'multiplier' THEN n.multiplier ELSE old.multiplier END,
       CASE WHEN $3 ? 'max_seconds' THEN n.max_seconds ELSE old.max_seconds END,
       CASE WHEN $3 ? 'delays' THEN n.delays ELSE old.delays END,
       CASE WHEN $3 ? 'jitter' THEN n.jitter ELSE old.jitter END,
       CASE WHEN $3 ? 'retryable' THEN n.retryable ELSE old.retryable END,
       CASE WHEN $3 ? 'non_retryable' THEN n.non_retryable ELSE old.non_retryable END,
       CASE WHEN $3 ? 'requires_idempotency_key' THEN n.requires_idempotency_key ELSE old.requires_idempotency_key END,
       $4, $4
FROM jsonb_to_record($3) AS n (max_attempts integer, backoff text, seconds double precision, multiplier double precision,
    max_seconds double precision, delays double precision[], jitter double precision, retryable text[],
    non_retryable text[], requires_idempotency_key boolean)
LEFT JOIN agentq.retry_policy old ON old.scope = $1 AND old.name = $2
ON CONFLICT (scope, name) DO UPDATE
SET (max_attempts, backoff, seconds, multiplier, max_seconds, delays, jitter, retryable, non_retryable, requires_idempotency_key, updated_at)
    = (excluded.max_attempts, excluded.backoff, excluded.seconds, excluded.multiplier, excluded.max_seconds, excluded.delays, excluded.jitter, excluded.retryable, excluded.non_retryable, excluded.requires_idempotency_key, excluded.updated_at)
RETURNING jsonb_build_object('ok', true, 'code', CASE WHEN p.xmax = 0 THEN 'created' ELSE 'updated' END)
    || to_jsonb(p) - ARRAY['created_at', 'updated_at']

-- name: policy_remove(scope text, name text)
DELETE FROM agentq.retry_policy WHERE scope = $1 AND name = $2 RETURNING 1
