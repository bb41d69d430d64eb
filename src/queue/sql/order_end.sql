DELETE FROM agentq.job_order WHERE queue_id = $1 AND ordering_key = $2
