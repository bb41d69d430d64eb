-- The client sends an array of jsonb; here it is made from the payloads.
SELECT * FROM pgmq.send_batch(
    queue_name => 'k'::text,
    msgs => ARRAY(SELECT jsonb_array_elements(:payloads::jsonb)),
    headers => NULL::jsonb[],
    delay => 0::integer
);
