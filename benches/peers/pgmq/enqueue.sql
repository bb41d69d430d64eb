SELECT * FROM pgmq.send(queue_name => 'k'::text, msg => :payload::jsonb, headers => NULL::jsonb, delay => 0::int);
