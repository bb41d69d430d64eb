WITH oldest AS MATERIALIZED (
    SELECT s.signal_id FROM agentq.signal s
    WHERE s.name = $1 AND s.key = $2 AND s.taken_by IS NULL AND s.expires_at > $3
    ORDER BY s.sent_at, s.signal_id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
UPDATE agentq.signal t SET taken_by = $4, taken_at = $3
FROM oldest
WHERE t.signal_id = oldest.signal_id
RETURNING t.signal_id, t.payload, t.sent_at, t.sent_by
