SELECT jsonb_object_agg(name, result) FROM agentq.mission_step
WHERE mission_id = $1 AND children = 0 AND status = 'succeeded'
