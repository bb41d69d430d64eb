WITH taken AS (
    UPDATE jobs SET state = 'running', locked_at = now()
    WHERE id = (SELECT id FROM jobs WHERE state = 'queued' AND run_at <= now()
                ORDER BY run_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, payload
)
SELECT count(*) AS found, max(id) AS id, max(payload::text) AS work FROM taken \gset
\if :found
UPDATE jobs SET state = 'done', done_at = now() WHERE id = :id AND state = 'running';
\endif
