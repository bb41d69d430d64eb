-- name: rulebook_load()
SELECT (SELECT coalesce(jsonb_agg(to_jsonb(q) || jsonb_build_object('paused', paused_at IS NOT NULL)), '[]') FROM agentq.queue q) AS queues,
       (SELECT coalesce(jsonb_agg(to_jsonb(e)), '[]') FROM agentq.error_class e) AS classes,
       (SELECT coalesce(jsonb_agg(to_jsonb(p)), '[]') FROM agentq.retry_policy p) AS policies,
       (SELECT coalesce(jsonb_agg(to_jsonb(l)), '[]') FROM agentq.limit_rule l) AS limits,
       (SELECT coalesce(jsonb_agg(to_jsonb(b)), '[]') FROM agentq.budget b) AS budgets
