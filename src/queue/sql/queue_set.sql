INSERT INTO agentq.queue AS q (queue, lease_seconds, max_attempts, priority, description, keep_seconds, durable_claims,
    created_at, updated_at)
VALUES ($1, ($2->>'lease_seconds')::integer, ($2->>'max_attempts')::integer, ($2->>'priority')::integer,
    $2->>'description', ($2->>'keep_seconds')::bigint, coalesce(($2->>'durable_claims')::boolean, true), $3, $3)
ON CONFLICT (queue) DO UPDATE
SET lease_seconds = CASE WHEN $2 ? 'lease_seconds' THEN excluded.lease_seconds ELSE q.lease_seconds END,
    max_attempts = CASE WHEN $2 ? 'max_attempts' THEN excluded.max_attempts ELSE q.max_attempts END,
    priority = CASE WHEN $2 ? 'priority' THEN excluded.priority ELSE q.priority END,
    description = CASE WHEN $2 ? 'description' THEN excluded.description ELSE q.description END,
    keep_seconds = CASE WHEN $2 ? 'keep_seconds' THEN excluded.keep_seconds ELSE q.keep_seconds END,
    durable_claims = CASE WHEN $2 ? 'durable_claims' THEN excluded.durable_claims ELSE q.durable_claims END,
    updated_at = excluded.updated_at
RETURNING jsonb_build_object('ok', true, 'code', CASE WHEN q.xmax = 0 THEN 'created' ELSE 'updated' END,
    'queue', q.queue, 'lease_seconds', q.lease_seconds, 'max_attempts', q.max_attempts, 'priority', q.priority,
    'description', q.description, 'keep_seconds', q.keep_seconds, 'durable_claims', q.durable_claims,
    'paused', q.paused_at IS NOT NULL)
