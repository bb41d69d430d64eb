SELECT cron, timezone FROM agentq.schedule WHERE schedule = $1 FOR UPDATE
