SELECT (j->>'code' = 'claimed')::int AS found, j->>'job_id' AS id, j->>'payload_json' AS work
FROM (SELECT fn_job_claim('w', 'k') AS j OFFSET 0) claim \gset
\if :found
SELECT fn_job_ack(:id, 'w');
\endif
