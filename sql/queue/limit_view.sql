-- What waits for limits. The version before has this view, too.
CREATE FUNCTION agentq_internal.fn_limit_pending(p_key text, p_most bigint) RETURNS bigint LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(CASE
           WHEN p_key = 'global' THEN (SELECT count(*) FROM (SELECT FROM agentq_internal.job_ready LIMIT p_most) p)
               + (SELECT count(*) FROM (SELECT FROM agentq_internal.job_waiting LIMIT p_most) p)
               + (SELECT count(*) FROM (SELECT FROM agentq_internal.job_line LIMIT p_most) p)
           WHEN p_key LIKE 'queue:%' THEN (
               SELECT (SELECT count(*) FROM (SELECT FROM agentq_internal.job_ready r WHERE r.any_queue_id = q.queue_id LIMIT p_most) p)
                   + (SELECT count(*) FROM (SELECT FROM agentq_internal.job_line b WHERE b.any_queue_id = q.queue_id LIMIT p_most) p)
                   + (SELECT count(*) FROM (SELECT FROM agentq_internal.job_waiting w JOIN agentq_internal.job j ON j.job_id = w.job_id
                                            WHERE j.queue_id = q.queue_id LIMIT p_most) p)
               FROM agentq.queue q WHERE q.queue = substr(p_key, 7))
           WHEN p_key LIKE 'kind:%' THEN (SELECT count(*) FROM (SELECT FROM agentq_internal.job_ready r WHERE r.job_kind = substr(p_key, 6) LIMIT p_most) p)
               + (SELECT count(*) FROM (SELECT FROM agentq_internal.job_line b WHERE b.job_kind = substr(p_key, 6) LIMIT p_most) p)
               + (SELECT count(*) FROM (SELECT FROM agentq_internal.job_waiting w JOIN agentq_internal.job j ON j.job_id = w.job_id
                                        WHERE j.job_kind = substr(p_key, 6) LIMIT p_most) p)
           ELSE (SELECT count(*) FROM (
                     SELECT FROM (SELECT job_id FROM agentq_internal.job_ready UNION ALL SELECT job_id FROM agentq_internal.job_waiting
                                  UNION ALL SELECT job_id FROM agentq_internal.job_line) p
                     JOIN agentq_internal.job j ON j.job_id = p.job_id WHERE p_key = ANY (j.limit_keys) LIMIT p_most) p)
           END, 0)::bigint
$$;
COMMENT ON FUNCTION agentq_internal.fn_limit_pending(text, bigint) IS 'How many jobs with a key wait, counted no further than p_most in each place where jobs rest.';

CREATE OR REPLACE VIEW agentq.v_limit AS
SELECT k.limit_key, r.limit_key AS rule, r.max_concurrent, r.max_pending, r.taken_by_hand,
       coalesce(k.active, 0) AS active, coalesce(k.blocked, 0) AS blocked, c.counted,
       r.rate, r.per_seconds, (g.gauge->>'left')::bigint AS rate_left, (g.gauge->>'opens_at')::timestamptz AS opens_at,
       CASE WHEN r.max_pending IS NOT NULL THEN agentq_internal.fn_limit_pending(k.limit_key, r.max_pending + 1) + r.pending_by_hand END AS pending
FROM (
    SELECT limit_key, sum(active)::bigint AS active, sum(blocked)::bigint AS blocked
    FROM (
        SELECT limit_key, 0 AS active, 0 AS blocked FROM agentq.limit_rule WHERE limit_key NOT LIKE '%*'
        UNION ALL SELECT unnest(limits), 1, 0 FROM agentq_internal.job_lease WHERE limits IS NOT NULL
        UNION ALL SELECT line, 0, 1 FROM agentq_internal.job_line
        WHERE line NOT LIKE 'order:%' AND line NOT LIKE 'fair:%' AND line NOT LIKE 'budget:%'
        UNION ALL SELECT limit_key, 0, 0 FROM agentq_internal.limit_gauge
    ) all_keys
    GROUP BY limit_key
) k
LEFT JOIN agentq.limit_rule r ON r.limit_key = agentq_internal.fn_limit_rule_of(k.limit_key)
CROSS JOIN LATERAL (SELECT agentq_internal.fn_limit_counted(k.limit_key) AS counted) c
CROSS JOIN LATERAL (SELECT agentq.fn_limit_gauge(k.limit_key) AS gauge) g;
COMMENT ON VIEW agentq.v_limit IS 'Each key of a limit that is in use, or has a rule for it alone, with who holds and who waits for its slots.';
COMMENT ON COLUMN agentq.v_limit.limit_key IS 'The key.';
COMMENT ON COLUMN agentq.v_limit.rule IS 'The rule that holds for it; NULL: none any more.';
COMMENT ON COLUMN agentq.v_limit.max_concurrent IS 'Jobs that may be held at once.';
COMMENT ON COLUMN agentq.v_limit.max_pending IS 'Jobs that may wait at once.';
COMMENT ON COLUMN agentq.v_limit.taken_by_hand IS 'Slots that something else than a job holds.';
COMMENT ON COLUMN agentq.v_limit.active IS 'Leases that hold a slot.';
COMMENT ON COLUMN agentq.v_limit.blocked IS 'Jobs that stand in the line of this key: a claim found them when it had no slot, or no rate, left.';
COMMENT ON COLUMN agentq.v_limit.counted IS 'Slots in use as the board in shared memory counts them; NULL: it does not. It equals active, but for claims and acks that are being committed.';
COMMENT ON COLUMN agentq.v_limit.rate IS 'Jobs, or weights of jobs, that may be begun in per_seconds.';
COMMENT ON COLUMN agentq.v_limit.per_seconds IS 'In how long.';
COMMENT ON COLUMN agentq.v_limit.rate_left IS 'How much of the rate is left now; NULL: all of it.';
COMMENT ON COLUMN agentq.v_limit.opens_at IS 'When the next job may be begun, because of the rate or of what fn_limit_report was told; NULL: now.';
COMMENT ON COLUMN agentq.v_limit.pending IS 'Jobs that wait, and things that are no jobs, counted no further than one beyond max_pending in each place where jobs rest; NULL: there is no bound.';
