DELETE FROM agentq.signal WHERE name = $1 AND key = $2 AND dedupe_key = $3 AND expires_at <= $4
