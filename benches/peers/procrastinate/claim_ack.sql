-- The function answers with a row of nulls when there is no job.
SELECT (id IS NOT NULL)::int AS found, id, args AS work
FROM procrastinate_fetch_job_v2(NULL::varchar[], 1) \gset
\if :found
SELECT procrastinate_finish_job_v1(:id::bigint, 'succeeded', false);
\endif
