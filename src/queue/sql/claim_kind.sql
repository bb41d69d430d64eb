WITH pick AS MATERIALIZED (
    SELECT r.tid, ($6)[1] AS lease_until, ($10)[1] AS queue
    FROM unnest($7, $8, $9) AS slot(priority, at, id)
    CROSS JOIN LATERAL (
        SELECT ctid AS tid FROM agentq.job_ready
        WHERE queue_id = ($4)[1] AND job_kind = ($5)[1] AND priority = slot.priority
          AND (scheduled_at, job_id) >= (slot.at, slot.id)
        ORDER BY scheduled_at, job_id
        FOR UPDATE SKIP LOCKED) r
    LIMIT $3
)
