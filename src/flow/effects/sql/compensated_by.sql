SELECT effect_id, declared_compensation, mission_id, step_id FROM agentq.effect WHERE compensation_job_id = $1
