WITH taken AS (
    DELETE FROM agentq.job_ready
    WHERE ctid = (
        SELECT ctid FROM agentq.job_ready
        WHERE queue_id = ($4)[1] AND job_kind = ($5)[1] AND priority = ($7)[1]
          AND (scheduled_at, job_id) >= (($8)[1], ($9)[1])
        ORDER BY scheduled_at, job_id
        LIMIT $3
        FOR UPDATE SKIP LOCKED)
    RETURNING job_id, keyed, ($6)[1] AS lease_until, ($10)[1] AS queue, gen_random_uuid() AS lease_token
)
