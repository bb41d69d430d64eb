SELECT jsonb_build_object('ok', true, 'code', 'found', 'mission', to_jsonb(m),
    'steps', (SELECT jsonb_agg(to_jsonb(s) - 'mission_id' ORDER BY s.position)
              FROM (SELECT * FROM agentq.v_mission_step s WHERE s.mission_id = $1 ORDER BY s.position LIMIT $2) s),
    'more_steps', greatest(m.step_count - $2, 0))
FROM agentq.v_mission m WHERE m.mission_id = $1
