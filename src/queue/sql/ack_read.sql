SELECT CASE WHEN jsonb_typeof(job) = 'object' THEN job - 'result' ELSE job END,
       CASE WHEN jsonb_typeof(job) = 'object' THEN pg_column_size(job->'result') - 4 END
FROM jsonb_array_elements($1) AS item(job)
