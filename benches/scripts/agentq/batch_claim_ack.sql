SELECT (j->>'code' = 'claimed')::int AS found, j->>'jobs' AS work, j->>'acks' AS acks
FROM agentq.fn_job_claim_batch('w', 50, 'k', p_options => '{"acks": true}') j \gset
\if :found
SELECT agentq.fn_job_ack_batch('w', :acks);
\endif
