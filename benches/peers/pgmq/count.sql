-- Finished messages are deleted, so the identity column tells how many there have been.
SELECT made, made - (SELECT count(*) FROM pgmq.q_k)
FROM (SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS made FROM pgmq.q_k_msg_id_seq) messages;
