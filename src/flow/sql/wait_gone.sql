DELETE FROM agentq.signal_wait WHERE job_id = $1
