-- The storage's own invariant, for tests and for the anxious.
CREATE OR REPLACE FUNCTION agentq.fn_queue_verify() RETURNS TABLE (problem text, job_id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH place AS (
        SELECT r.job_id, 'ready' AS place FROM agentq_internal.job_ready r
        UNION ALL SELECT w.job_id, 'waiting' FROM agentq_internal.job_waiting w
        UNION ALL SELECT b.job_id, 'a line' FROM agentq_internal.job_line b
        UNION ALL SELECT l.job_id, 'lease' FROM agentq_internal.job_lease l
        UNION ALL SELECT d.job_id, 'done' FROM agentq_internal.job_done d
    ), counted AS (
        SELECT p.job_id, count(*) AS places, string_agg(p.place, ' and ' ORDER BY p.place) AS names
        FROM place p GROUP BY p.job_id
    )
    SELECT 'the job is in ' || c.names, c.job_id FROM counted c WHERE c.places > 1
    UNION ALL
    SELECT 'a row in ' || c.names || ' has no job', c.job_id
    FROM counted c WHERE NOT EXISTS (SELECT FROM agentq_internal.job j WHERE j.job_id = c.job_id)
    UNION ALL
    SELECT 'the job is nowhere', j.job_id
    FROM agentq_internal.job j WHERE NOT EXISTS (SELECT FROM counted c WHERE c.job_id = j.job_id)
    UNION ALL
    SELECT 'the ready row does not agree with its job', r.job_id
    FROM agentq_internal.job_ready r JOIN agentq_internal.job j ON j.job_id = r.job_id
    WHERE (r.queue_id, r.any_queue_id, r.job_kind, r.priority, r.scheduled_at)
        IS DISTINCT FROM (j.queue_id, j.queue_id, j.job_kind, j.priority, j.scheduled_at)
    UNION ALL
    SELECT 'the waiting row does not agree with its job', w.job_id
    FROM agentq_internal.job_waiting w JOIN agentq_internal.job j ON j.job_id = w.job_id
    WHERE w.scheduled_at IS DISTINCT FROM j.scheduled_at
    UNION ALL
    SELECT 'an ordering key has no job at its head', j.job_id
    FROM agentq_internal.job j WHERE j.ordering_key IS NOT NULL
        AND NOT EXISTS (SELECT FROM agentq_internal.job_done d WHERE d.job_id = j.job_id)
        AND NOT EXISTS (SELECT FROM agentq_internal.job_order o WHERE o.queue_id = j.queue_id AND o.ordering_key = j.ordering_key)
    UNION ALL
    SELECT 'the head of an ordering key is finished, gone or in the line behind its own key', o.job_id
    FROM agentq_internal.job_order o
    WHERE NOT EXISTS (SELECT FROM agentq_internal.job_order_due u WHERE u.job_id = o.job_id)
        AND (NOT EXISTS (SELECT FROM agentq_internal.job j WHERE j.job_id = o.job_id AND j.ordering_key = o.ordering_key)
            OR EXISTS (SELECT FROM agentq_internal.job_done d WHERE d.job_id = o.job_id)
            OR EXISTS (SELECT FROM agentq_internal.job_line b WHERE b.job_id = o.job_id AND b.line LIKE 'order:%'))
    UNION ALL
    SELECT 'the job runs or may run, though another is at the head of its ordering key', j.job_id
    FROM agentq_internal.job j JOIN agentq_internal.job_order o ON o.queue_id = j.queue_id AND o.ordering_key = j.ordering_key AND o.job_id <> j.job_id
    WHERE NOT EXISTS (SELECT FROM agentq_internal.job_done d WHERE d.job_id = j.job_id)
        AND NOT EXISTS (SELECT FROM agentq_internal.job_line b WHERE b.job_id = j.job_id AND b.line NOT LIKE 'fair:%')
    UNION ALL
    SELECT 'the job is not in its fair line', j.job_id
    FROM agentq_internal.job j
    WHERE (j.fairness_key IS NOT NULL OR j.requires IS NOT NULL)
        AND (EXISTS (SELECT FROM agentq_internal.job_ready r WHERE r.job_id = j.job_id)
            OR EXISTS (SELECT FROM agentq_internal.job_line b WHERE b.job_id = j.job_id AND b.line LIKE 'fair:%'
                AND b.line <> format('fair:%s|%s|%s', j.queue_id, array_to_string(j.requires, ','), j.fairness_key)))
    UNION ALL
    SELECT 'the row in a line does not agree with its job', b.job_id
    FROM agentq_internal.job_line b JOIN agentq_internal.job j ON j.job_id = b.job_id
    WHERE (b.queue_id, b.any_queue_id, b.job_kind, b.priority, b.scheduled_at)
        IS DISTINCT FROM (j.queue_id, j.queue_id, j.job_kind, j.priority, j.scheduled_at)
    UNION ALL
    SELECT 'an unfinished job does not hold its idempotency key', j.job_id
    FROM agentq_internal.job j WHERE j.idempotency_key IS NOT NULL
        AND NOT EXISTS (SELECT FROM agentq_internal.job_done d WHERE d.job_id = j.job_id)
        AND NOT EXISTS (SELECT FROM agentq_internal.job_key k WHERE k.idempotency_key = j.idempotency_key AND k.job_id = j.job_id)
    UNION ALL
    SELECT 'a finished job still holds an idempotency key', k.job_id
    FROM agentq_internal.job_key k WHERE NOT EXISTS (SELECT FROM agentq_internal.job j WHERE j.job_id = k.job_id)
        OR EXISTS (SELECT FROM agentq_internal.job_done d WHERE d.job_id = k.job_id)
$$;
COMMENT ON FUNCTION agentq.fn_queue_verify() IS 'Looks for jobs that are in no place, in two places, or at odds with their idempotency key. No rows: the queue is sound.';
