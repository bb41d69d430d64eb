-- name: partitions() freely
SELECT class, partition::text, lower::timestamptz, upper::timestamptz FROM agentq.v_event_partition
WHERE holds = 'event' AND lower IS NOT NULL ORDER BY class, 3

-- name: partition_add(chain text, lower timestamptz, upper timestamptz)
SELECT agentq_internal.fn_event_partition_add($1, $2, $3)

-- name: partition_oids(chain text, name text)
SELECT to_regclass('agentq_internal.event_' || $1)::oid AS parent, to_regclass('agentq_internal.' || $2)::oid AS partition

-- name: partition_drop(chain text, name text, upper timestamptz)
SELECT agentq_internal.fn_event_partition_drop($1, $2, $3)

-- name: log_over(chain text) freely
SELECT EXISTS (
    SELECT FROM agentq.v_event_partition v JOIN agentq.event_chain c ON c.chain = v.class
    WHERE v.class = $1 AND CASE WHEN v.holds = 'log' THEN v.upper::bigint END <= c.last_seq)

-- name: log_drop(chain text, horizon timestamptz)
SELECT agentq_internal.fn_event_log_drop($1, $2)

-- name: rest_end(chain text)
SELECT CASE $1 WHEN 'audit' THEN (SELECT max(event_at) FROM agentq_internal.event_audit_rest)
               ELSE (SELECT max(event_at) FROM agentq_internal.event_usual_rest) END

-- name: keys_forget(purpose text, chain text, most int8)
WITH old AS (
    SELECT ctid AS tid FROM agentq_internal.event_key
    WHERE purpose = $1 AND event_at < (SELECT dropped_before FROM agentq.event_chain WHERE chain = $2)
    ORDER BY event_at LIMIT $3 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM agentq_internal.event_key k USING old WHERE k.ctid = old.tid RETURNING 1
)
SELECT count(*) FROM gone
