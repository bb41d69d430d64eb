SELECT count(*), count(*) FILTER (WHERE status = 'succeeded') FROM procrastinate_jobs;
