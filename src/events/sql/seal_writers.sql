SELECT x FROM unnest($1) AS x WHERE (SELECT true FROM agentq.event e WHERE e.xid = x::xid8 LIMIT 1) ORDER BY x::xid8
