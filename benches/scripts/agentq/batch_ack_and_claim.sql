SELECT j->>'jobs' AS work, j->>'acks' AS acks
FROM (SELECT agentq.fn_job_ack_and_claim_batch('w', :acks, 50, 'k', p_options => '{"acks": true}') AS j OFFSET 0) claim \gset
