SELECT coalesce(j->'job'->>'job_id', 'none') AS held, coalesce(j->'job'->>'lease_token', 'none') AS lease_token,
    j->'job'->>'payload_json' AS work
FROM (SELECT agentq.fn_job_ack_and_claim(nullif(:held, 'none')::uuid, 'w', NULL, nullif(:lease_token, 'none')::uuid, 'k')
    AS j OFFSET 0) claim \gset
