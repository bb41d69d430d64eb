DELETE FROM agentq.job_key k USING agentq.job j
WHERE j.job_id = $1 AND k.idempotency_key = j.idempotency_key AND k.job_id = j.job_id
