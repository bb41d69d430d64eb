-- name: channel_lock(name text, key text)
INSERT INTO agentq_internal.signal_channel AS c (name, key) VALUES ($1, $2)
ON CONFLICT (name, key) DO UPDATE SET used = (c.used + 1) % 1000000

-- name: channel_free(name text, key text)
DELETE FROM agentq_internal.signal_channel c
WHERE c.name = $1 AND c.key = $2
  AND NOT EXISTS (SELECT FROM agentq.signal s WHERE s.name = $1 AND s.key = $2 AND s.taken_by IS NULL)
  AND NOT EXISTS (SELECT FROM agentq.signal_wait w WHERE w.name = $1 AND w.key = $2)
  AND NOT EXISTS (SELECT FROM agentq.mission_wait m WHERE m.name = $1 AND m.key = $2 AND m.is_open)

-- before: channel_free(name text, key text)
DELETE FROM agentq_internal.signal_channel c
WHERE c.name = $1 AND c.key = $2
  AND NOT EXISTS (SELECT FROM agentq.signal s WHERE s.name = $1 AND s.key = $2 AND s.taken_by IS NULL)
  AND NOT EXISTS (SELECT FROM agentq.signal_wait w WHERE w.name = $1 AND w.key = $2)

-- name: signal_add(signal_id uuid, name text, key text, payload jsonb, dedupe_key text, sent_at timestamptz,
--   sent_by text, keep_seconds float8)
INSERT INTO agentq.signal (signal_id, name, key, payload, dedupe_key, sent_at, sent_by, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $6 + make_interval(secs => $8))
RETURNING expires_at

-- name: signal_known(name text, key text, dedupe text)
SELECT signal_id, taken_by FROM agentq.signal
WHERE name = $1 AND key = $2 AND dedupe_key = $3

-- name: signal_forget(name text, key text, dedupe text, now timestamptz)
DELETE FROM agentq.signal WHERE name = $1 AND key = $2 AND dedupe_key = $3 AND expires_at <= $4

-- name: signal_take(name text, key text, now timestamptz, job_id uuid)
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

-- name: signal_give(id uuid, job_id uuid, now timestamptz, busy bool)
UPDATE agentq.signal SET taken_by = $2, taken_at = $3, wake_pending = $4 WHERE signal_id = $1

-- name: signal_there(name text, key text, now timestamptz)
SELECT s.signal_id FROM agentq.signal s
WHERE s.name = $1 AND s.key = $2 AND s.taken_by IS NULL AND s.expires_at > $3
ORDER BY s.sent_at, s.signal_id
LIMIT 1

-- name: wait_register(job_id uuid, name text, key text, step text, occurrence int4, registered_at timestamptz)
INSERT INTO agentq.signal_wait AS w (job_id, name, key, step, occurrence, registered_at)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (job_id) DO UPDATE
SET name = excluded.name, key = excluded.key, step = excluded.step, occurrence = excluded.occurrence,
    registered_at = CASE WHEN (w.name, w.key) = (excluded.name, excluded.key) THEN w.registered_at ELSE excluded.registered_at END

-- name: wait_gone(job_id uuid)
DELETE FROM agentq.signal_wait WHERE job_id = $1

-- name: wait_oldest(name text, key text)
WITH oldest AS MATERIALIZED (
    SELECT job_id FROM agentq.signal_wait WHERE name = $1 AND key = $2 ORDER BY registered_at, job_id LIMIT 1
    FOR UPDATE SKIP LOCKED
)
DELETE FROM agentq.signal_wait w
USING oldest
WHERE w.job_id = oldest.job_id AND w.name = $1 AND w.key = $2
RETURNING w.job_id, w.step, w.occurrence,
    EXISTS (SELECT FROM agentq_internal.job j WHERE j.job_id = w.job_id)
    AND NOT EXISTS (SELECT FROM agentq_internal.job_done d WHERE d.job_id = w.job_id) AS is_alive

-- name: step_is_done(job_id uuid, step text, occurrence int4)
SELECT job_id FROM agentq_internal.job_step WHERE job_id = $1 AND name = $2 AND occurrence = $3 AND status = 'done'
