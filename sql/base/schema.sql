-- The schemas are the extension's own: made here, gone with DROP EXTENSION, and never ones that somebody
-- else made before, with objects of theirs in them.
DO $$
DECLARE
    v_schema text;
BEGIN
    FOREACH v_schema IN ARRAY ARRAY['agentq', 'agentq_internal'] LOOP
        IF to_regnamespace(v_schema) IS NOT NULL THEN
            RAISE EXCEPTION 'there is a schema % already, which belongs to %', v_schema,
                    (SELECT nspowner::regrole FROM pg_catalog.pg_namespace WHERE nspname = v_schema)
                USING ERRCODE = 'duplicate_schema',
                      HINT = 'The extension makes this schema itself. Look at what is in it, then rename or drop it.';
        END IF;
    END LOOP;
END $$;
CREATE SCHEMA agentq;
COMMENT ON SCHEMA agentq IS 'A durable job queue for agents: start with fn_job_enqueue and fn_job_claim.';
-- Storage, triggers and helpers. No role is let into it: functions that run with their owner's rights use it, and views
-- that stand in agentq.
CREATE SCHEMA agentq_internal;
COMMENT ON SCHEMA agentq_internal IS 'How agentq stores things and does its work. Nothing here is for callers, and it may change with any version.';
SET LOCAL search_path = agentq, pg_temp;
