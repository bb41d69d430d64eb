SELECT count(*), count(*) FILTER (WHERE state = 'completed') FROM oban_jobs;
