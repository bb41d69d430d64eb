-- Finished jobs are deleted from the queue, so its sequence tells how many there have been.
SELECT made, made - (SELECT count(*) FROM pgqueuer)
FROM (SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS made FROM pgqueuer_id_seq) jobs;
