WITH near AS MATERIALIZED (
    SELECT r.tid, slot.lease_until, slot.queue, r.priority, r.scheduled_at, r.job_id
    FROM unnest($4, $5, $6, $7, $8, $9, $10) AS slot(queue_id, kind, lease_until, priority, at, id, queue)
    CROSS JOIN LATERAL (
        (SELECT ctid AS tid, priority, scheduled_at, job_id FROM agentq.job_ready
         WHERE slot.kind IS NOT NULL AND queue_id = slot.queue_id AND job_kind = slot.kind
           AND priority = slot.priority AND (scheduled_at, job_id) >= (slot.at, slot.id)
         ORDER BY scheduled_at, job_id LIMIT $3 + $11)
        UNION ALL
        (SELECT ctid AS tid, priority, scheduled_at, job_id FROM agentq.job_ready
         WHERE slot.kind IS NULL AND any_queue_id = slot.queue_id
           AND priority = slot.priority AND (scheduled_at, job_id) >= (slot.at, slot.id)
         ORDER BY scheduled_at, job_id LIMIT $3 + $11)
    ) r
    ORDER BY r.priority, r.scheduled_at, r.job_id
    LIMIT $3 + $11
), pick AS MATERIALIZED (
    SELECT r.ctid AS tid, near.lease_until, near.queue
    FROM near JOIN agentq.job_ready r ON r.ctid = near.tid
    LIMIT $3
    FOR UPDATE OF r SKIP LOCKED
)
