, taken AS (
    DELETE FROM agentq.job_ready r USING pick WHERE r.ctid = pick.tid
    RETURNING r.job_id, r.keyed, pick.lease_until, pick.queue, gen_random_uuid() AS lease_token
)
