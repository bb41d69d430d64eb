-- name: buried_at(now timestamptz) freely
SELECT count(*) FROM agentq.job_dead_letter WHERE moved_at = $1
