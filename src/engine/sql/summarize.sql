SELECT pg_catalog.brin_summarize_new_values('agentq.job_done_finished_idx')
