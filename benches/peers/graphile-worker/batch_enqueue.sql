-- The client sends the specifications as JSON; here they are made from the payloads.
SELECT * FROM graphile_worker.add_jobs(
    ARRAY(
        SELECT ('k', payload, NULL, NULL, NULL, NULL, NULL, NULL)::graphile_worker.job_spec
        FROM json_array_elements(:payloads::json) payload
    ),
    NULL::boolean
);
