-- name: emit(event_id uuid, event_at timestamptz, event_kind text, subject text, payload jsonb)
INSERT INTO agentq.event (event_id, event_at, event_kind, subject, payload) VALUES ($1, $2, $3, $4, $5)

-- name: emit_full(event_id uuid, event_at timestamptz, event_kind text, subject text, payload jsonb, purpose text,
--   source text, tags text[], dedupe_key text, correlation_id uuid, trace_id text, mission_id uuid)
INSERT INTO agentq.event (event_id, event_at, event_kind, subject, payload, purpose, source, tags, dedupe_key, correlation_id, trace_id,
    mission_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)

-- name: key_take(dedupe_key text, event_id uuid, purpose text, event_at timestamptz)
INSERT INTO agentq_internal.event_key (dedupe_key, event_id, purpose, event_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (dedupe_key) DO NOTHING RETURNING event_id

-- name: key_holder(key text)
SELECT event_id FROM agentq_internal.event_key WHERE dedupe_key = $1
