-- 0.8.0: what the torture has found, nearly all of it in the library; many jobs of one kind in one call.

CREATE FUNCTION agentq."fn_job_enqueue_payloads"(
	"p_job_kind" TEXT,
	"p_payloads" jsonb,
	"p_options" jsonb DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_job_enqueue_payloads_wrapper';
COMMENT ON FUNCTION agentq.fn_job_enqueue_payloads IS 'Enqueues one job for each payload, up to 10,000, all of one kind and with the same options; answers as fn_job_enqueue_batch.';
COMMENT ON FUNCTION agentq.fn_job_claim_batch IS 'Leases up to p_limit jobs in one call; with p_wait it waits until there is one, and with the option acks the answer has the list that acks them.';
REVOKE ALL ON FUNCTION agentq.fn_job_enqueue_payloads FROM PUBLIC;
INSERT INTO agentq.access_rule (level, privilege, object)
VALUES ('producer', 'EXECUTE', 'fn_job_enqueue_payloads'), ('operator', 'EXECUTE', 'fn_job_enqueue_payloads');
-- Roles that have a level get what it has gained.
UPDATE agentq.access_grant SET granted_at = granted_at;

-- No two entries are alike, so that looking for such is in vain.
ALTER INDEX agentq.job_ready_kind_idx SET (deduplicate_items = off);

-- An owner's name of any length.

CREATE OR REPLACE FUNCTION agentq.fn_event_partition_make(p_whole text, p_name text, p_from text, p_to text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_owner text := (SELECT relowner::regrole::text FROM pg_class WHERE oid = 'agentq.event'::regclass);
BEGIN
    EXECUTE format('CREATE TABLE agentq.%I (LIKE agentq.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', p_name, p_whole);
    IF p_whole LIKE 'event\_log%' THEN
        EXECUTE format('ALTER TABLE agentq.%I ADD CONSTRAINT %I PRIMARY KEY (seq)', p_name, p_name || '_pkey');
        EXECUTE format('ALTER TABLE agentq.%I ADD CONSTRAINT %I UNIQUE (event_id)', p_name, p_name || '_event_key');
    ELSE
        EXECUTE format('ALTER TABLE agentq.%I ADD CONSTRAINT %I PRIMARY KEY (event_id)', p_name, p_name || '_pkey');
        EXECUTE format('CREATE INDEX %I ON agentq.%I (subject, event_id)', p_name || '_subject_idx', p_name);
        EXECUTE format('CREATE INDEX %I ON agentq.%I (xid, event_id)', p_name || '_xid_idx', p_name);
    END IF;
    EXECUTE format('COMMENT ON TABLE agentq.%I IS %L', p_name, format('Of %s, from %s to %s.', p_whole, p_from, p_to));
    EXECUTE format('CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq.%I
        FOR EACH STATEMENT EXECUTE FUNCTION agentq.fn_event_keep()', p_name);
    EXECUTE format('REVOKE ALL ON agentq.%I FROM PUBLIC', p_name);
    -- The engine is nobody's role: its tables belong to whoever has the others.
    EXECUTE format('ALTER TABLE agentq.%I OWNER TO %s', p_name, v_owner);
    EXECUTE format('ALTER TABLE agentq.%I ATTACH PARTITION agentq.%I FOR VALUES FROM (%L) TO (%L)', p_whole, p_name, p_from, p_to);
END $$;
