SELECT to_regclass('agentq.event_cursor') IS NOT NULL
