-- Who sees what of a job: producers the whole of their own, and of others the state alone.

-- For functions that run with the owner's rights.
CREATE OR REPLACE FUNCTION agentq_internal.fn_sees_all_jobs() RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(has_table_privilege(c.role, 'agentq.job_queue', 'SELECT') OR has_function_privilege(c.role, p.oid, 'EXECUTE'), false)
    FROM (SELECT agentq_internal.fn_role_that_sees() AS role) c,
         (SELECT oid FROM pg_proc WHERE proname = 'fn_job_claim' AND pronamespace = 'agentq'::regnamespace) p
$$;
COMMENT ON FUNCTION agentq_internal.fn_sees_all_jobs() IS 'Whether the caller may see all of every job: who reads, works or operates may.';

CREATE OR REPLACE FUNCTION agentq_internal.fn_sees_job(p_job_id uuid) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM agentq_internal.job j
                   WHERE j.job_id = p_job_id AND coalesce(j.enqueued_by, j.actor) = agentq_internal.fn_actor())
        OR agentq_internal.fn_sees_all_jobs()
$$;
COMMENT ON FUNCTION agentq_internal.fn_sees_job(uuid) IS 'Whether the caller may see all of a job: also who has enqueued it.';
