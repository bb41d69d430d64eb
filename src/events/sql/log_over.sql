SELECT EXISTS (
    SELECT FROM agentq.v_event_partition v JOIN agentq.event_chain c ON c.chain = v.class
    WHERE v.class = $1 AND CASE WHEN v.holds = 'log' THEN v.upper::bigint END <= c.last_seq)
