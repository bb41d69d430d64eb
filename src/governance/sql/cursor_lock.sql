SELECT seq FROM agentq.event_cursor WHERE consumer = $1 FOR UPDATE SKIP LOCKED
