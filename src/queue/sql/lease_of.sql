SELECT lease_token FROM agentq.job_lease WHERE job_id = $1 AND lease_owner = $2 AND ($3 IS NULL OR lease_token = $3)
