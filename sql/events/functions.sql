-- What the functions of this room that are written in Rust are for.
COMMENT ON FUNCTION agentq.fn_event_emit IS 'Writes an event: what happened, to what, and what else is to be known. With a dedupe_key in p_options it is written once.';
COMMENT ON FUNCTION agentq.fn_event_read IS 'The events after a place in the log, in order; with p_wait it waits for the next. Go on with next_after.';
COMMENT ON FUNCTION agentq.fn_event_verify IS 'Checks the log and its events: the first row that was altered, removed, put in or moved.';
