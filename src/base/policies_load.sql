SELECT (SELECT coalesce(jsonb_agg(to_jsonb(e)), '[]') FROM agentq.error_class e),
       (SELECT coalesce(jsonb_agg(to_jsonb(p)), '[]') FROM agentq.retry_policy p),
       (SELECT coalesce(jsonb_agg(to_jsonb(l)), '[]') FROM agentq.limit_rule l)
