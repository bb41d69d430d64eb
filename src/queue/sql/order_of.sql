SELECT queue_id, ordering_key FROM agentq.job WHERE job_id = $1 AND ordering_key IS NOT NULL
