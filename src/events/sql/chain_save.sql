INSERT INTO agentq.event_chain (chain, last_seq, last_place, last_hash) VALUES ($1, $2, $3, decode($4, 'hex'))
ON CONFLICT (chain) DO UPDATE SET last_seq = excluded.last_seq, last_place = excluded.last_place, last_hash = excluded.last_hash
