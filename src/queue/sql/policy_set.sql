INSERT INTO agentq.retry_policy AS p (scope, name, max_attempts, backoff, seconds, multiplier, max_seconds, delays, jitter,
    retryable, non_retryable, requires_idempotency_key, created_at, updated_at)
SELECT $1, $2, n.max_attempts, n.backoff, n.seconds, n.multiplier, n.max_seconds, n.delays, n.jitter,
    n.retryable, n.non_retryable, n.requires_idempotency_key, $4, $4
FROM jsonb_to_record($3) AS n (max_attempts integer, backoff text, seconds double precision, multiplier double precision,
    max_seconds double precision, delays double precision[], jitter double precision, retryable text[],
    non_retryable text[], requires_idempotency_key boolean)
ON CONFLICT (scope, name) DO UPDATE
SET max_attempts = CASE WHEN $3 ? 'max_attempts' THEN excluded.max_attempts ELSE p.max_attempts END,
    backoff = CASE WHEN $3 ? 'backoff' THEN excluded.backoff ELSE p.backoff END,
    seconds = CASE WHEN $3 ? 'seconds' THEN excluded.seconds ELSE p.seconds END,
    multiplier = CASE WHEN $3 ? 'multiplier' THEN excluded.multiplier ELSE p.multiplier END,
    max_seconds = CASE WHEN $3 ? 'max_seconds' THEN excluded.max_seconds ELSE p.max_seconds END,
    delays = CASE WHEN $3 ? 'delays' THEN excluded.delays ELSE p.delays END,
    jitter = CASE WHEN $3 ? 'jitter' THEN excluded.jitter ELSE p.jitter END,
    retryable = CASE WHEN $3 ? 'retryable' THEN excluded.retryable ELSE p.retryable END,
    non_retryable = CASE WHEN $3 ? 'non_retryable' THEN excluded.non_retryable ELSE p.non_retryable END,
    requires_idempotency_key = CASE WHEN $3 ? 'requires_idempotency_key' THEN excluded.requires_idempotency_key
        ELSE p.requires_idempotency_key END,
    updated_at = excluded.updated_at
RETURNING jsonb_build_object('ok', true, 'code', CASE WHEN p.xmax = 0 THEN 'created' ELSE 'updated' END)
    || to_jsonb(p) - ARRAY['created_at', 'updated_at']
