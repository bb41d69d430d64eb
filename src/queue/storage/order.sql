-- name: order_lead(queue_id int4, ordering_key text, job_id uuid)
INSERT INTO agentq_internal.job_order (queue_id, ordering_key, job_id) VALUES ($1, $2, $3)
ON CONFLICT (queue_id, ordering_key) DO NOTHING
RETURNING true

-- name: order_follow(queue_id int4, key text)
SELECT true FROM agentq_internal.job_order WHERE queue_id = $1 AND ordering_key = $2 FOR KEY SHARE

-- name: order_hold(queue_id int4, key text, job_id uuid)
SELECT true FROM agentq_internal.job_order WHERE queue_id = $1 AND ordering_key = $2 AND job_id = $3
FOR NO KEY UPDATE SKIP LOCKED

-- name: order_hold_alone(queue_id int4, key text, job_id uuid)
SELECT true FROM agentq_internal.job_order WHERE queue_id = $1 AND ordering_key = $2 AND job_id = $3 FOR UPDATE SKIP LOCKED

-- name: order_is_head(queue_id int4, key text, job_id uuid)
SELECT true FROM agentq_internal.job_order WHERE queue_id = $1 AND ordering_key = $2 AND job_id = $3

-- name: order_pass(queue_id int4, key text, job_id uuid)
UPDATE agentq_internal.job_order SET job_id = $3 WHERE queue_id = $1 AND ordering_key = $2

-- name: order_end(queue_id int4, key text)
DELETE FROM agentq_internal.job_order WHERE queue_id = $1 AND ordering_key = $2

-- name: order_of(job_id uuid)
SELECT queue_id, ordering_key FROM agentq_internal.job WHERE job_id = $1 AND ordering_key IS NOT NULL

-- name: order_owe(due_at timestamptz, job_id uuid, queue_id int4, key text)
INSERT INTO agentq_internal.job_order_due (due_at, job_id, queue_id, ordering_key) VALUES ($1, $2, $3, $4)
RETURNING true AS is_noted

-- before: order_owe(due_at timestamptz, job_id uuid, queue_id int4, key text)
WITH head AS (
    SELECT FROM agentq_internal.job_order WHERE queue_id = $3 AND ordering_key = $4 AND num_nulls($1, $2) = 0 FOR UPDATE
), next AS (
    SELECT FROM agentq_internal.job_line WHERE any_queue_id = $3 AND line = 'order:' || $4
    ORDER BY priority, scheduled_at, job_id LIMIT 1 FOR UPDATE
)
SELECT false AS is_noted FROM (SELECT count(*) FROM head) h, (SELECT count(*) FROM next) n

-- name: order_due(from_at timestamptz, from_id uuid, now timestamptz, most int8)
SELECT due_at, job_id, queue_id, ordering_key::text, tries FROM agentq_internal.job_order_due
WHERE (due_at, job_id) >= ($1, $2) AND due_at <= $3
ORDER BY due_at, job_id
LIMIT $4
FOR UPDATE SKIP LOCKED

-- before: order_due(from_at timestamptz, from_id uuid, now timestamptz, most int8)
SELECT NULL AS nothing_due WHERE num_nulls($1, $2, $3, $4) > 4

-- name: order_next_due(from_at timestamptz, from_id uuid)
SELECT due_at, job_id FROM agentq_internal.job_order_due
WHERE (due_at, job_id) >= ($1, $2)
ORDER BY due_at, job_id
LIMIT 1

-- before: order_next_due(from_at timestamptz, from_id uuid)
SELECT NULL AS nothing_next WHERE num_nulls($1, $2) > 2

-- name: order_paid(due_at timestamptz, job_id uuid)
DELETE FROM agentq_internal.job_order_due WHERE due_at = $1 AND job_id = $2

-- before: order_paid(due_at timestamptz, job_id uuid)
SELECT NULL AS nothing_paid WHERE num_nulls($1, $2) > 2

-- name: order_later(due_at timestamptz, job_id uuid, later_at timestamptz)
UPDATE agentq_internal.job_order_due SET due_at = $3, tries = least(tries + 1, 30) WHERE due_at = $1 AND job_id = $2

-- before: order_later(due_at timestamptz, job_id uuid, later_at timestamptz)
SELECT NULL AS nothing_later WHERE num_nulls($1, $2, $3) > 3
