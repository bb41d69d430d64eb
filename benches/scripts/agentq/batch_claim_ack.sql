SELECT (j->>'code' = 'claimed')::int AS found, j->>'jobs' AS work,
    (SELECT jsonb_agg(jsonb_build_object('job_id', a->'job_id', 'lease_token', a->'lease_token'))
     FROM jsonb_array_elements(j->'jobs') a) AS acks
FROM agentq.fn_job_claim_batch('w', 50, 'k') j \gset
\if :found
SELECT agentq.fn_job_ack_batch('w', :acks);
\endif
