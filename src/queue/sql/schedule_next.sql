SELECT min(next_fire_at) FROM agentq.schedule WHERE paused_at IS NULL
