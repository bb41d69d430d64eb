SELECT * FROM graphile_worker.add_job(
    identifier => 'k'::text,
    payload => :payload::json,
    queue_name => NULL::text,
    run_at => NULL::timestamptz,
    max_attempts => NULL::int,
    job_key => NULL::text,
    priority => NULL::int,
    flags => NULL::text[],
    job_key_mode => NULL::text
);
