INSERT INTO agentq.event_log (seq, purpose, place, event_id, event_at, digest, hash)
SELECT seq, purpose, place, event_id, event_at, decode(digest, 'hex'), decode(hash, 'hex')
FROM unnest($1, $2, $3, $4, $5, $6, $7) AS t(seq, purpose, place, event_id, event_at, digest, hash)
