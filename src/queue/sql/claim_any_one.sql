WITH taken AS (
    DELETE FROM agentq.job_ready
    WHERE ctid = (
        SELECT ctid FROM agentq.job_ready
        WHERE any_queue_id = $4 AND priority = $7
          AND (scheduled_at, job_id) >= ($8, $9)
        ORDER BY scheduled_at, job_id
        LIMIT $3
        FOR UPDATE SKIP LOCKED)
    RETURNING job_id, keyed, $6 AS lease_until, $10 AS queue, gen_random_uuid() AS lease_token
)
