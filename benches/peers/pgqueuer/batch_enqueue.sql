-- The client sends an array for each column; here the columns are made from the payloads.
WITH input AS MATERIALIZED (
    SELECT
        nextval((SELECT pg_get_serial_sequence('pgqueuer', 'id'))) AS id,
        priority, entrypoint, payload, execute_after, dedupe_key, headers, ord
    FROM (
        SELECT
            0 AS priority, 'k' AS entrypoint, convert_to(element::text, 'UTF8') AS payload,
            interval '0' AS execute_after, NULL::text AS dedupe_key, 'null'::jsonb AS headers, ord
        FROM json_array_elements(:payloads::json) WITH ORDINALITY AS t(element, ord)
    ) t
), inserted AS (
    INSERT INTO pgqueuer AS job
        (id, priority, entrypoint, payload, execute_after, dedupe_key, headers, status)
    SELECT id, priority, entrypoint, payload, execute_after + NOW(), dedupe_key, headers, 'queued'
    FROM input
    RETURNING id, entrypoint, priority, dedupe_key
), logged AS (
    INSERT INTO pgqueuer_log (job_id, status, entrypoint, priority)
    SELECT id, 'queued', entrypoint, priority
    FROM inserted
    WHERE id IN (SELECT id FROM input)
)
SELECT i.ord AS ord, ins.id AS id
FROM inserted ins
JOIN input i ON i.id = ins.id
ORDER BY i.ord;
