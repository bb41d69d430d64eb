-- Slots that are taken by hand.
CREATE OR REPLACE FUNCTION agentq.fn_adjust_concurrency(p_scope text, p_scope_id uuid, p_active_delta integer, p_pending_delta integer)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM agentq_internal.fn_bounded('fn_adjust_concurrency', 'p_scope', octet_length(p_scope));
    UPDATE agentq.limit_rule
    SET taken_by_hand = greatest(0, taken_by_hand + coalesce(p_active_delta, 0)),
        pending_by_hand = greatest(0, pending_by_hand + coalesce(p_pending_delta, 0)),
        updated_at = agentq.fn_clock_now()
    WHERE limit_key = CASE WHEN p_scope_id IS NULL THEN p_scope ELSE p_scope || ':' || p_scope_id END;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION agentq.fn_adjust_concurrency(text, uuid, integer, integer) IS 'Counts slots that something else than a job takes or gives back: they are taken from the limit of that scope. False: there is no such rule.';
