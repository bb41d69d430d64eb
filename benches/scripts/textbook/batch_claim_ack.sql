WITH pick AS (
    SELECT id FROM jobs WHERE state = 'queued' AND run_at <= now()
    ORDER BY run_at, id LIMIT 50 FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE jobs j SET state = 'running', locked_at = now()
    FROM pick WHERE j.id = pick.id
    RETURNING j.id, j.payload
)
SELECT (count(*) > 0)::int AS found, array_agg(id) AS acks, jsonb_agg(payload) AS work FROM taken \gset
\if :found
UPDATE jobs SET state = 'done', done_at = now() WHERE id = ANY (:acks) AND state = 'running';
\endif
