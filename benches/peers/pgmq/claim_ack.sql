SELECT count(*) AS found, max(msg_id) AS id, max(message::text) AS work
FROM pgmq.read(queue_name => 'k'::text, vt => 30::integer, qty => 1::integer) \gset
\if :found
SELECT * FROM pgmq.delete(queue_name => 'k'::text, msg_id => :id::bigint);
\endif
