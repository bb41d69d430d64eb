SELECT seq FROM agentq.event_cursor WHERE consumer = $1
