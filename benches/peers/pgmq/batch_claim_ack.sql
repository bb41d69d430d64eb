SELECT (count(*) > 0)::int AS found, array_agg(msg_id) AS ids, jsonb_agg(message) AS work
FROM pgmq.read(queue_name => 'k'::text, vt => 30::integer, qty => 50::integer) \gset
\if :found
SELECT * FROM pgmq.delete(queue_name => 'k'::text, msg_ids => :ids::bigint[]);
\endif
