SELECT (j->>'code' = 'claimed')::int AS found, j->>'jobs' AS work,
    (SELECT array_agg((a->>'job_id')::uuid) FROM jsonb_array_elements(j->'jobs') a) AS acks
FROM fn_job_claim_batch('w', 50, 'k') j \gset
\if :found
SELECT fn_job_ack_batch('w', :acks);
\endif
