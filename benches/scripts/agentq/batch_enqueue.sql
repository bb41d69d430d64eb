SELECT agentq.fn_job_enqueue_batch(:jobs, '{"answer": "ids"}');
