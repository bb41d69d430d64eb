SELECT lease_until FROM agentq.job_lease
WHERE lease_until >= $1 AND lease_until <= $2
ORDER BY lease_until
LIMIT 1
