SELECT coalesce(jsonb_agg(to_jsonb(b)), '[]') FROM agentq.budget b
