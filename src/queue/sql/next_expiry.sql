SELECT lease_until FROM agentq.job_lease
WHERE lease_until >= $1
ORDER BY lease_until
LIMIT 1
