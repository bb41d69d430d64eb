-- name: order_lead(queue_id int4, ordering_key text, job_id uuid)
INSERT INTO agentq_internal.job_order (queue_id, ordering_key, job_id) VALUES ($1, $2, $3)
ON CONFLICT (queue_id, ordering_key) DO NOTHING
RETURNING true

-- name: order_follow(queue_id int4, key text)
SELECT true FROM agentq_internal.job_order WHERE queue_id = $1 AND ordering_key = $2 FOR SHARE

-- name: order_lock(queue_id int4, key text, job_id uuid)
SELECT true FROM agentq_internal.job_order WHERE queue_id = $1 AND ordering_key = $2 AND job_id = $3 FOR UPDATE

-- name: order_try(queue_id int4, key text, job_id uuid)
SELECT true FROM agentq_internal.job_order WHERE queue_id = $1 AND ordering_key = $2 AND job_id = $3 FOR UPDATE SKIP LOCKED

-- name: order_is_head(queue_id int4, key text, job_id uuid)
SELECT true FROM agentq_internal.job_order WHERE queue_id = $1 AND ordering_key = $2 AND job_id = $3

-- name: order_pass(queue_id int4, key text, job_id uuid)
UPDATE agentq_internal.job_order SET job_id = $3 WHERE queue_id = $1 AND ordering_key = $2

-- name: order_end(queue_id int4, key text)
DELETE FROM agentq_internal.job_order WHERE queue_id = $1 AND ordering_key = $2

-- name: order_of(job_id uuid)
SELECT queue_id, ordering_key FROM agentq_internal.job WHERE job_id = $1 AND ordering_key IS NOT NULL
