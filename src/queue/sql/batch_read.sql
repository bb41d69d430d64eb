SELECT CASE WHEN jsonb_typeof(job) = 'object' THEN job - 'payload_json' ELSE 'null' END,
       CASE WHEN jsonb_typeof(job) = 'object' THEN jsonb_typeof(job->'payload_json') END,
       CASE WHEN jsonb_typeof(job) = 'object' THEN pg_column_size(job->'payload_json') - 4 END,
       CASE WHEN jsonb_typeof(job) = 'object' AND jsonb_typeof(job->'payload_json') = 'object' AND job->'payload_json' ?| $2
            THEN (SELECT key FROM unnest($2) WITH ORDINALITY AS denied(key, n)
                  WHERE job->'payload_json' ? key ORDER BY n LIMIT 1) END
FROM jsonb_array_elements($1) AS item(job)
