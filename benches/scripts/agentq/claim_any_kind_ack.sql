SELECT (j->>'code' = 'claimed')::int AS found, j->>'job_id' AS id, j->>'lease_token' AS lease_token,
    j->>'payload_json' AS work
FROM (SELECT agentq.fn_job_claim('w') AS j OFFSET 0) claim \gset
\if :found
SELECT agentq.fn_job_ack(:id, 'w', p_lease_token => :lease_token);
\endif
