UPDATE agentq.event_cursor SET seq = $2, updated_at = $3 WHERE consumer = $1
