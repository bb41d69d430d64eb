-- name: command_by_key(key text)
SELECT command_id, decision, mission_id, reason FROM agentq.command WHERE dedupe_key = $1

-- name: command_make(command_id uuid, dedupe_key text, source text, title text, risk_level text, template jsonb,
--   reason text, policy_snapshot jsonb, requested_by text, reaction_id uuid, depth int4, now timestamptz, trace_id text,
--   traceparent text, correlation_id text)
INSERT INTO agentq.command (command_id, dedupe_key, source, title, risk_level, template, reason, policy_snapshot, requested_by,
    reaction_id, depth, created_at, updated_at, trace_id, traceparent, correlation_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12, $13, $14, $15)
ON CONFLICT (dedupe_key) DO NOTHING
RETURNING command_id

-- before: command_make(command_id uuid, dedupe_key text, source text, title text, risk_level text, template jsonb,
--   reason text, policy_snapshot jsonb, requested_by text, reaction_id uuid, depth int4, now timestamptz, trace_id text,
--   traceparent text, correlation_id text)
INSERT INTO agentq.command (command_id, dedupe_key, source, title, risk_level, template, reason, policy_snapshot, requested_by,
    reaction_id, depth, created_at, updated_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12 WHERE num_nulls($13, $14, $15) >= 0
ON CONFLICT (dedupe_key) DO NOTHING
RETURNING command_id

-- name: command_lock(id uuid)
SELECT decision, decided_by, mission_id, reason, title, source, depth, policy_snapshot, template,
       to_jsonb(c)->>'trace_id' AS trace_id, to_jsonb(c)->>'traceparent' AS traceparent, to_jsonb(c)->>'correlation_id' AS correlation_id
FROM agentq.command c WHERE command_id = $1 FOR UPDATE

-- name: command_decide(id uuid, decision text, by text, reason text, now timestamptz, mission uuid, snapshot jsonb)
UPDATE agentq.command
SET decision = $2, state = $2, decided_by = $3, reason = $4, decided_at = $5, updated_at = $5, mission_id = $6,
    approved_at = CASE WHEN $6 IS NOT NULL THEN $5 END, policy_snapshot = $7
WHERE command_id = $1

-- name: proposal_get(id uuid)
SELECT jsonb_build_object('ok', true, 'code', 'found') || to_jsonb(p) FROM agentq.v_proposal p WHERE proposal_id = $1
