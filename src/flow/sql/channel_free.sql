DELETE FROM agentq.signal_channel c
WHERE c.name = $1 AND c.key = $2
  AND NOT EXISTS (SELECT FROM agentq.signal s WHERE s.name = $1 AND s.key = $2 AND s.taken_by IS NULL)
  AND NOT EXISTS (SELECT FROM agentq.signal_wait w WHERE w.name = $1 AND w.key = $2)
