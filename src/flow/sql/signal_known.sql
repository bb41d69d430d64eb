SELECT signal_id, taken_by FROM agentq.signal
WHERE name = $1 AND key = $2 AND dedupe_key = $3
