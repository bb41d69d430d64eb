SELECT agentq.fn_backpressure_status(),
       coalesce((SELECT e.payload->>'level' FROM agentq.event e
                 WHERE e.subject = 'backpressure' AND e.event_kind = 'backpressure.changed'
                 ORDER BY e.event_id DESC LIMIT 1), 'normal')
