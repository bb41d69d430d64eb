-- The schema is the extension's own: made here, gone with DROP EXTENSION, and never one that somebody
-- else made before, with objects of theirs in it.
DO $$
BEGIN
    IF to_regnamespace('agentq') IS NOT NULL THEN
        RAISE EXCEPTION 'there is a schema agentq already, which belongs to %',
                (SELECT nspowner::regrole FROM pg_catalog.pg_namespace WHERE nspname = 'agentq')
            USING ERRCODE = 'duplicate_schema',
                  HINT = 'The extension makes this schema itself. Look at what is in it, then rename or drop it.';
    END IF;
END $$;
CREATE SCHEMA agentq;
COMMENT ON SCHEMA agentq IS 'A durable job queue for agents: start with fn_job_enqueue and fn_job_claim.';
SET LOCAL search_path = agentq, pg_temp;
