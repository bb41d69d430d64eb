SELECT true FROM agentq.job_order WHERE queue_id = $1 AND ordering_key = $2 AND job_id = $3 FOR UPDATE SKIP LOCKED
