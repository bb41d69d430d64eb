DELETE FROM agentq.schedule WHERE schedule = $1
RETURNING jsonb_build_object('ok', true, 'code', 'removed', 'schedule', schedule)
