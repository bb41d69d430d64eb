-- name: mission_insert(mission_id uuid, status text, title text, template jsonb, step_count int4, depth int4,
--   parent_step_id uuid, forked_from uuid, forked_step text, command_id uuid, source text, actor text,
--   correlation_id text, trace_id text, policy_snapshot jsonb, input jsonb, idempotency_key text,
--   cancellation_mode text, deadline_at timestamptz, created_at timestamptz, paused bool,
--   traceparent text, finally_of uuid, parent_item int4)
INSERT INTO agentq.mission (mission_id, status, title, template, step_count, depth, parent_step_id, forked_from, forked_step,
    command_id, source, actor, correlation_id, trace_id, policy_snapshot, input, idempotency_key, cancellation_mode,
    deadline_at, created_at, started_at, paused_at, traceparent, finally_of, parent_item)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
    CASE WHEN $21 THEN NULL ELSE $20 END, CASE WHEN $21 THEN $20 END, $22, $23, $24)
ON CONFLICT (idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
RETURNING mission_id

-- before: mission_insert(mission_id uuid, status text, title text, template jsonb, step_count int4, depth int4,
--   parent_step_id uuid, forked_from uuid, forked_step text, command_id uuid, source text, actor text,
--   correlation_id text, trace_id text, policy_snapshot jsonb, input jsonb, idempotency_key text,
--   cancellation_mode text, deadline_at timestamptz, created_at timestamptz, paused bool,
--   traceparent text, finally_of uuid, parent_item int4)
INSERT INTO agentq.mission (mission_id, status, title, template, step_count, depth, parent_step_id, forked_from, forked_step,
    command_id, source, actor, correlation_id, trace_id, policy_snapshot, input, idempotency_key, cancellation_mode,
    deadline_at, created_at, started_at, paused_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
    CASE WHEN $21 THEN NULL ELSE $20 END, CASE WHEN $21 THEN $20 END
WHERE num_nulls($22, $23, $24) >= 0
ON CONFLICT (idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
RETURNING mission_id

-- name: mission_by_key(idempotency_key text)
SELECT mission_id FROM agentq.mission WHERE idempotency_key = $1
