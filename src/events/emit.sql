-- name: emit(event_id uuid, event_at timestamptz, event_kind text, subject text, payload jsonb, actor text)
INSERT INTO agentq.event (event_id, event_at, event_kind, subject, payload, origin, actor) VALUES ($1, $2, $3, $4, $5, 'agentq', $6)

-- before: emit(event_id uuid, event_at timestamptz, event_kind text, subject text, payload jsonb, actor text)
INSERT INTO agentq.event (event_id, event_at, event_kind, subject, payload) SELECT $1, $2, $3, $4, $5 WHERE $6 IS NOT NULL

-- name: emit_full(event_id uuid, event_at timestamptz, event_kind text, subject text, payload jsonb, purpose text,
--   source text, tags text[], dedupe_key text, correlation_id text, trace_id text, mission_id uuid, origin text, actor text,
--   target_type text, target_id text, command_id uuid, agent_run_id uuid, swarm_run_id uuid, step_index int4, tool_name text,
--   latency_ms int4, token_usage jsonb, cost_units float8)
INSERT INTO agentq.event (event_id, event_at, event_kind, subject, payload, purpose, source, tags, dedupe_key, correlation_id, trace_id,
    mission_id, origin, actor, target_type, target_id, command_id, agent_run_id, swarm_run_id, step_index, tool_name, latency_ms,
    token_usage, cost_units)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24::numeric)

-- before: emit_full(event_id uuid, event_at timestamptz, event_kind text, subject text, payload jsonb, purpose text,
--   source text, tags text[], dedupe_key text, correlation_id text, trace_id text, mission_id uuid, origin text, actor text,
--   target_type text, target_id text, command_id uuid, agent_run_id uuid, swarm_run_id uuid, step_index int4, tool_name text,
--   latency_ms int4, token_usage jsonb, cost_units float8)
-- A correlation that is no uuid has no column there.
INSERT INTO agentq.event (event_id, event_at, event_kind, subject, payload, purpose, source, tags, dedupe_key, correlation_id, trace_id,
    mission_id)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9,
    CASE WHEN $10 ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN $10::uuid END, $11, $12
WHERE num_nulls($13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24) >= 0

-- name: key_take(dedupe_key text, event_id uuid, purpose text, event_at timestamptz)
INSERT INTO agentq_internal.event_key (dedupe_key, event_id, purpose, event_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (dedupe_key) DO NOTHING RETURNING event_id

-- name: key_holder(key text)
SELECT event_id FROM agentq_internal.event_key WHERE dedupe_key = $1
