SELECT j->>'jobs' AS work,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('job_id', a->'job_id', 'lease_token', a->'lease_token')), '[]')
     FROM jsonb_array_elements(j->'jobs') a) AS acks
FROM (SELECT agentq.fn_job_ack_and_claim_batch('w', :acks, 50, 'k') AS j OFFSET 0) claim \gset
