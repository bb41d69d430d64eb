SELECT agentq.fn_job_enqueue_payloads('k', :payloads, '{"answer": "ids"}');
