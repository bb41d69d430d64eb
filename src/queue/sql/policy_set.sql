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
