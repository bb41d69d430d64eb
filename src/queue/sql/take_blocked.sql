DELETE FROM agentq.job_blocked b USING agentq.job j
WHERE b.job_id = $1 AND j.job_id = b.job_id
RETURNING j.job_id, j.queue_id, j.job_kind::text, j.priority::integer, j.scheduled_at, b.blocked_by
