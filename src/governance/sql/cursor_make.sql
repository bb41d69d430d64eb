INSERT INTO agentq.event_cursor (consumer, seq, updated_at)
SELECT $1, 0, $2 WHERE NOT EXISTS (SELECT FROM agentq.event_cursor WHERE consumer = $1)
ON CONFLICT (consumer) DO NOTHING RETURNING seq
