SELECT to_regclass('agentq.event_' || $1)::oid, to_regclass('agentq.' || $2)::oid
