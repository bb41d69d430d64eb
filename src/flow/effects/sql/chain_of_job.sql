SELECT e.effect_id, e.chain_id, e.declared_compensation, c.mission_id, j.last_error, e.seq, e.mission_id, m.depth
FROM agentq.effect e
JOIN agentq.effect_chain c ON c.chain_id = e.chain_id
LEFT JOIN agentq.mission m ON m.mission_id = c.mission_id
LEFT JOIN agentq.job j ON j.job_id = e.compensation_job_id
WHERE e.compensation_job_id = $1 AND e.status = 'compensating'
