-- The client sends the array; here it is made from the payloads.
SELECT unnest(procrastinate_defer_jobs_v1(
    ARRAY(
        SELECT ('default', 'k', 0, NULL, NULL, args, NULL)::procrastinate_job_to_defer_v1
        FROM jsonb_array_elements(:payloads::jsonb) args
    )
)) AS id;
