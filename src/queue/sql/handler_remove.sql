DELETE FROM agentq.job_handler WHERE job_kind = $1
RETURNING jsonb_build_object('ok', true, 'code', 'removed', 'job_kind', job_kind)
