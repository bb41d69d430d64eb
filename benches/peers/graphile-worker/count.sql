-- Finished jobs are deleted, so the identity column tells how many there have been.
SELECT made, made - (SELECT count(*) FROM graphile_worker._private_jobs)
FROM (SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS made FROM graphile_worker.jobs_id_seq1) jobs;
