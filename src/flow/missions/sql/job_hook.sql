SELECT on_end FROM agentq.job WHERE job_id = $1 AND on_end IS NOT NULL
