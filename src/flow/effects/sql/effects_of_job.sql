SELECT effect_type, bool_or(status NOT IN ('planned', 'executing', 'failed'))
FROM agentq.effect WHERE job_id = $1 GROUP BY effect_type
