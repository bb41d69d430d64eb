UPDATE agentq.event_seal
SET last_seq = $1, sealed = $2::pg_snapshot, target = $3::pg_snapshot, adopting = $4, at_xid = $5::xid8, at_event = $6,
    foreign_to = $7::xid8, origin = $8, updated_at = $9
WHERE one
