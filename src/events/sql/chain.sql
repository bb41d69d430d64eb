SELECT last_seq, last_place, encode(last_hash, 'hex'), first_place, encode(first_hash, 'hex'), dropped_before
FROM agentq.event_chain WHERE chain = $1
