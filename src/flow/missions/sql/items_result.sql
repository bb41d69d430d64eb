SELECT jsonb_agg(i.result ORDER BY i.item),
       count(*) FILTER (WHERE i.status = 'succeeded'),
       count(*),
       (SELECT (s.spec->>'items_needed')::bigint FROM agentq.mission_step s WHERE s.step_id = $1),
       (array_agg(format('item %s: %s', i.item, i.last_error) ORDER BY i.item) FILTER (WHERE i.status <> 'succeeded'))[1],
       coalesce(bool_and(i.status IN ('succeeded', 'cancelled')), false)
FROM agentq.mission_item i WHERE i.step_id = $1
