SELECT s.sealed IS NULL OR s.target IS NOT NULL OR s.origin <> $1
       OR pg_snapshot_xmax(s.sealed) > pg_snapshot_xmax(pg_current_snapshot())
       OR (SELECT true FROM agentq.event e WHERE e.xid >= pg_snapshot_xmax(s.sealed) LIMIT 1) IS TRUE
       OR (SELECT true FROM pg_snapshot_xip(s.sealed) x
           WHERE (SELECT true FROM agentq.event e WHERE e.xid = x LIMIT 1) LIMIT 1) IS TRUE
FROM agentq.event_seal s WHERE s.one
