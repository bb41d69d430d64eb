-- What the rules of limit_rule come to.
CREATE FUNCTION agentq.fn_limit_rule_of(p_key text) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.limit_key FROM agentq.limit_rule r
    WHERE r.limit_key = p_key OR (r.limit_key LIKE '%*' AND starts_with(p_key, left(r.limit_key, -1)))
    ORDER BY r.limit_key = p_key DESC, length(r.limit_key) DESC
    LIMIT 1
$$;
COMMENT ON FUNCTION agentq.fn_limit_rule_of(text) IS 'The rule that holds for a key: its own, or that of the longest pattern.';

CREATE VIEW agentq.v_limit AS
SELECT k.limit_key, r.limit_key AS rule, r.max_concurrent, r.max_pending, r.taken_by_hand,
       coalesce(k.active, 0) AS active, coalesce(k.blocked, 0) AS blocked, c.counted
FROM (
    SELECT limit_key, sum(active)::bigint AS active, sum(blocked)::bigint AS blocked
    FROM (
        SELECT limit_key, 0 AS active, 0 AS blocked FROM agentq.limit_rule WHERE limit_key NOT LIKE '%*'
        UNION ALL SELECT unnest(limits), 1, 0 FROM agentq.job_lease WHERE limits IS NOT NULL
        UNION ALL SELECT blocked_by, 0, 1 FROM agentq.job_blocked WHERE blocked_by NOT LIKE 'order:%'
    ) all_keys
    GROUP BY limit_key
) k
LEFT JOIN agentq.limit_rule r ON r.limit_key = agentq.fn_limit_rule_of(k.limit_key)
CROSS JOIN LATERAL (SELECT agentq.fn_limit_counted(k.limit_key) AS counted) c;
COMMENT ON VIEW agentq.v_limit IS 'Each key of a limit that is in use, or has a rule of its own, with who holds and who waits for its slots.';
COMMENT ON COLUMN agentq.v_limit.limit_key IS 'The key.';
COMMENT ON COLUMN agentq.v_limit.rule IS 'The rule that holds for it; NULL: none any more.';
COMMENT ON COLUMN agentq.v_limit.max_concurrent IS 'Jobs that may be held at once.';
COMMENT ON COLUMN agentq.v_limit.max_pending IS 'Jobs that may wait at once.';
COMMENT ON COLUMN agentq.v_limit.taken_by_hand IS 'Slots that something else than a job holds.';
COMMENT ON COLUMN agentq.v_limit.active IS 'Leases that hold a slot.';
COMMENT ON COLUMN agentq.v_limit.blocked IS 'Jobs that were found when all slots were taken, and wait for one.';
COMMENT ON COLUMN agentq.v_limit.counted IS 'Slots in use as shared memory counts them; NULL: it does not. The same as active, but for claims and acks that are being committed.';

CREATE FUNCTION agentq.fn_adjust_concurrency(p_scope text, p_scope_id uuid, p_active_delta integer, p_pending_delta integer)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE agentq.limit_rule
    SET taken_by_hand = greatest(0, taken_by_hand + coalesce(p_active_delta, 0)),
        pending_by_hand = greatest(0, pending_by_hand + coalesce(p_pending_delta, 0)),
        updated_at = agentq.fn_clock_now()
    WHERE limit_key = CASE WHEN p_scope_id IS NULL THEN p_scope ELSE p_scope || ':' || p_scope_id END;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION agentq.fn_adjust_concurrency(text, uuid, integer, integer) IS 'Counts slots that something else than a job takes or gives back: they are taken from the limit of that scope. False: there is no such rule.';

CREATE FUNCTION agentq.fn_limit_preset() RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM agentq.fn_limit_set(p.limit_key, jsonb_strip_nulls(jsonb_build_object(
        'max_concurrent', p.max_concurrent, 'max_pending', p.max_pending, 'description', p.description)))
    FROM (VALUES
        ('global', 200, 1000, 'all jobs'),
        ('venture:*', 10, 50, 'each venture'),
        ('stage:*', 20, NULL, 'each stage'),
        ('worker:ceo_handler:*', 5, NULL, 'each CEO handler'),
        ('worker:vp_handler:*', 10, NULL, 'each VP handler'),
        ('worker:crew_executor:*', 1, NULL, 'each crew executor')
    ) AS p (limit_key, max_concurrent, max_pending, description);
    RETURN jsonb_build_object('ok', true, 'code', 'set', 'rules', 6);
END $$;
COMMENT ON FUNCTION agentq.fn_limit_preset() IS 'Sets limits that suit a fleet of agents: 200 jobs at once, 10 for each venture, 20 for each stage, 5, 10 and 1 for each CEO handler, VP handler and crew executor.';
