SELECT class, partition::text, lower::timestamptz, upper::timestamptz FROM agentq.v_event_partition
WHERE holds = 'event' AND lower IS NOT NULL ORDER BY class, 3
