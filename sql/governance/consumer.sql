-- How far each consumer is behind the log of events.
CREATE VIEW agentq.v_event_consumer AS
SELECT c.consumer, c.seq, s.last_seq, greatest(s.last_seq - c.seq, 0) AS behind,
       (SELECT l.event_at FROM agentq.event_log l WHERE l.seq > c.seq ORDER BY l.seq LIMIT 1) AS oldest_unread_at, c.updated_at
FROM agentq.event_cursor c
CROSS JOIN LATERAL (SELECT coalesce((SELECT last_seq FROM agentq_internal.event_seal WHERE one), 0) AS last_seq) s;
COMMENT ON VIEW agentq.v_event_consumer IS 'How far each consumer is behind the log of events.';
COMMENT ON COLUMN agentq.v_event_consumer.consumer IS 'Who reads: react is the chore of that name.';
COMMENT ON COLUMN agentq.v_event_consumer.seq IS 'Place in the log of the last event that it has read.';
COMMENT ON COLUMN agentq.v_event_consumer.last_seq IS 'The last place in the log.';
COMMENT ON COLUMN agentq.v_event_consumer.behind IS 'How many events it has not read yet.';
COMMENT ON COLUMN agentq.v_event_consumer.oldest_unread_at IS 'When the first of these happened.';
COMMENT ON COLUMN agentq.v_event_consumer.updated_at IS 'When it last came on.';
