SELECT agentq.fn_job_enqueue('k', p_payload_json => :payload);
