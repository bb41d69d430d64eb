SELECT CASE $1 WHEN 'audit' THEN (SELECT max(event_at) FROM agentq.event_audit_rest)
               ELSE (SELECT max(event_at) FROM agentq.event_usual_rest) END
