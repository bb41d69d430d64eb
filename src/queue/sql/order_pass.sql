UPDATE agentq.job_order SET job_id = $3 WHERE queue_id = $1 AND ordering_key = $2
