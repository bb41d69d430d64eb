DELETE FROM agentq.job_blocked b USING agentq.job j
WHERE j.job_id = b.job_id AND b.blocked_by NOT LIKE 'order:%'
  AND NOT EXISTS (SELECT FROM agentq.limit_rule r
                  WHERE r.max_concurrent IS NOT NULL AND r.limit_key = agentq.fn_limit_rule_of(b.blocked_by))
RETURNING j.job_id, j.queue_id, j.job_kind::text, j.priority::integer, j.scheduled_at
