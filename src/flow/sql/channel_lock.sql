INSERT INTO agentq.signal_channel AS c (name, key) VALUES ($1, $2)
ON CONFLICT (name, key) DO UPDATE SET used = (c.used + 1) % 1000000
