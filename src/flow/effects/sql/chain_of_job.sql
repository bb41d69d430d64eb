SELECT e.effect_id, e.chain_id, e.declared_compensation, e.mission_id, j.last_error, e.seq
FROM agentq.effect e
LEFT JOIN agentq.job j ON j.job_id = e.compensation_job_id
WHERE e.compensation_job_id = $1 AND e.status = 'compensating'
