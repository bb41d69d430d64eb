DELETE FROM agentq.job_deadline WHERE deadline_at = $1 AND job_id = $2 AND what = CASE WHEN $3 THEN 'start' ELSE 'finish' END
