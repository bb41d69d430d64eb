DELETE FROM agentq.job_blocked b USING agentq.job j
WHERE j.job_id = b.job_id AND b.blocked_by NOT LIKE 'order:%' AND b.blocked_by NOT LIKE 'lane:%'
  AND CASE WHEN b.blocked_by LIKE 'budget:%' THEN $1 ELSE agentq.fn_limit_rule_of(b.blocked_by) IS NULL END
RETURNING j.job_id, j.queue_id, j.job_kind::text, j.priority::integer, j.scheduled_at
