SELECT lease_token, cancel_reason IS NOT NULL
FROM agentq.job_lease
WHERE job_id = $1 AND ($2 IS NULL OR lease_owner = $2) AND ($3 IS NULL OR lease_token = $3)
FOR KEY SHARE
