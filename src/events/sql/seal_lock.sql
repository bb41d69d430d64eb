SELECT last_seq, sealed::text, target::text, adopting, at_xid::text, at_event, foreign_to::text, origin, updated_at
FROM agentq.event_seal WHERE one FOR UPDATE SKIP LOCKED
