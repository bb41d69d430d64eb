SELECT unnest(procrastinate_defer_jobs_v1(
    ARRAY[('default', 'k', 0, NULL, NULL, :payload::jsonb, NULL)]::procrastinate_job_to_defer_v1[]
)) AS id;
