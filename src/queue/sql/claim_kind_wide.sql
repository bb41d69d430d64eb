WITH pick AS MATERIALIZED (
    SELECT ctid AS tid, ($6)[1] AS lease_until, ($10)[1] AS queue FROM agentq.job_ready
    WHERE queue_id = ($4)[1] AND job_kind = ($5)[1]
      AND (priority, scheduled_at, job_id) >= (($7)[1], ($8)[1], ($9)[1])
    ORDER BY priority, scheduled_at, job_id
    LIMIT $3
    FOR UPDATE SKIP LOCKED
)
