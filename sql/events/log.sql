-- The log: the place of every committed event in one sequence without gaps, and the chain of hashes
-- over it. One sealer writes it. Parts of a million places are made and dropped as time goes on.
CREATE TABLE agentq.event_log (
    seq      bigint NOT NULL,
    purpose  text NOT NULL,
    place    bigint NOT NULL,
    event_id uuid NOT NULL,
    event_at timestamptz NOT NULL,
    digest   bytea NOT NULL,
    hash     bytea NOT NULL,
    form     smallint NOT NULL DEFAULT 1,
    CONSTRAINT event_log_place_check CHECK (seq > 0 AND place > 0 AND place <= seq),
    CONSTRAINT event_log_hash_check CHECK (octet_length(digest) = 32 AND octet_length(hash) = 32)
) PARTITION BY LIST (purpose);
CREATE TABLE agentq_internal.event_log_usual PARTITION OF agentq.event_log FOR VALUES IN ('event', 'agent_step') PARTITION BY RANGE (seq);
CREATE TABLE agentq_internal.event_log_audit PARTITION OF agentq.event_log FOR VALUES IN ('audit') PARTITION BY RANGE (seq);
COMMENT ON TABLE agentq.event_log IS 'The order of events: every committed event has one place, and no place is left out or given later. Read with fn_event_read, check with fn_event_verify.';
COMMENT ON COLUMN agentq.event_log.seq IS 'Its place among all events.';
COMMENT ON COLUMN agentq.event_log.purpose IS 'The purpose of the event.';
COMMENT ON COLUMN agentq.event_log.place IS 'Its place in its chain: audits have one, all others have the other.';
COMMENT ON COLUMN agentq.event_log.event_id IS 'The event.';
COMMENT ON COLUMN agentq.event_log.event_at IS 'When it happened.';
COMMENT ON COLUMN agentq.event_log.digest IS 'SHA-256 of the event.';
COMMENT ON COLUMN agentq.event_log.hash IS 'SHA-256 of the hash before it in the chain and of this row.';
COMMENT ON COLUMN agentq.event_log.form IS 'The form in which the digest was made: 1 by 0.9.0, 2 since then.';
COMMENT ON TABLE agentq_internal.event_log_usual IS 'The places of events and steps of agents.';
COMMENT ON TABLE agentq_internal.event_log_audit IS 'The places of audits.';

CREATE TRIGGER event_log_keep BEFORE UPDATE OR DELETE ON agentq.event_log
    FOR EACH ROW EXECUTE FUNCTION agentq_internal.fn_event_keep();
CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq.event_log
    FOR EACH STATEMENT EXECUTE FUNCTION agentq_internal.fn_event_keep();
CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq_internal.event_log_usual
    FOR EACH STATEMENT EXECUTE FUNCTION agentq_internal.fn_event_keep();
CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON agentq_internal.event_log_audit
    FOR EACH STATEMENT EXECUTE FUNCTION agentq_internal.fn_event_keep();

-- The partitions that come with the extension say what the columns of their parents are.
DO $$
DECLARE
    v_column record;
    v_trigger record;
BEGIN
    FOR v_column IN
        SELECT p.part, a.attname, d.description
        FROM (VALUES ('event', 'event_usual'), ('event', 'event_audit'), ('event', 'event_usual_rest'), ('event', 'event_audit_rest'),
                     ('event_log', 'event_log_usual'), ('event_log', 'event_log_audit')) AS p(whole, part)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = ('agentq.' || p.whole)::regclass AND a.attnum > 0 AND NOT a.attisdropped
        JOIN pg_catalog.pg_description d ON d.objoid = a.attrelid AND d.classoid = 'pg_class'::regclass AND d.objsubid = a.attnum
    LOOP
        EXECUTE format('COMMENT ON COLUMN agentq_internal.%I.%I IS %L', v_column.part, v_column.attname, v_column.description);
    END LOOP;
    FOR v_trigger IN
        SELECT tgrelid::regclass AS part, tgname FROM pg_catalog.pg_trigger
        WHERE tgfoid = 'agentq_internal.fn_event_keep'::regproc
    LOOP
        EXECUTE format('COMMENT ON TRIGGER %I ON %s IS %L', v_trigger.tgname, v_trigger.part, 'What happened stays as it was written.');
    END LOOP;
END $$;

-- Where each chain stands: its last link, and what the first link that is still there follows.
CREATE TABLE agentq.event_chain (
    chain          text NOT NULL,
    first_place    bigint NOT NULL DEFAULT 1,
    first_hash     bytea,
    last_seq       bigint NOT NULL DEFAULT 0,
    last_place     bigint NOT NULL DEFAULT 0,
    last_hash      bytea,
    dropped_before timestamptz NOT NULL DEFAULT '-infinity',
    CONSTRAINT event_chain_pkey PRIMARY KEY (chain),
    CONSTRAINT event_chain_chain_check CHECK (chain IN ('usual', 'audit'))
) WITH (fillfactor = 50);
COMMENT ON TABLE agentq.event_chain IS 'The two chains of hashes over event_log: where they begin, and where they end.';
COMMENT ON COLUMN agentq.event_chain.chain IS 'usual or audit.';
COMMENT ON COLUMN agentq.event_chain.first_place IS 'Its first place that has not been dropped.';
COMMENT ON COLUMN agentq.event_chain.first_hash IS 'The hash before that place; NULL: it is the first of all.';
COMMENT ON COLUMN agentq.event_chain.last_seq IS 'The last place among all events; 0: none yet.';
COMMENT ON COLUMN agentq.event_chain.last_place IS 'Its last place.';
COMMENT ON COLUMN agentq.event_chain.last_hash IS 'The hash of that place.';
COMMENT ON COLUMN agentq.event_chain.dropped_before IS 'Events older than this may have been dropped, their time being over.';

-- How far the sealer has come. Everything that is visible in "sealed" has its place. "target" is what it
-- works on now, and "at_xid" and "at_event" are how far it has come in that.
CREATE TABLE agentq_internal.event_seal (
    one        boolean NOT NULL DEFAULT true,
    last_seq   bigint NOT NULL DEFAULT 0,
    sealed     pg_snapshot,
    target     pg_snapshot,
    adopting   boolean NOT NULL DEFAULT false,
    at_xid     xid8 NOT NULL DEFAULT '0',
    at_event   uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    foreign_to xid8 NOT NULL DEFAULT '0',
    origin     text NOT NULL DEFAULT '',
    updated_at timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    CONSTRAINT event_seal_pkey PRIMARY KEY (one),
    CONSTRAINT event_seal_one_check CHECK (one)
) WITH (fillfactor = 50);
COMMENT ON TABLE agentq_internal.event_seal IS 'How far event_log has come. One row.';
COMMENT ON COLUMN agentq_internal.event_seal.one IS 'There is one row.';
COMMENT ON COLUMN agentq_internal.event_seal.last_seq IS 'The last place that was given.';
COMMENT ON COLUMN agentq_internal.event_seal.sealed IS 'All events of transactions that had committed by then have their place.';
COMMENT ON COLUMN agentq_internal.event_seal.target IS 'What is being sealed now, if it takes several turns.';
COMMENT ON COLUMN agentq_internal.event_seal.adopting IS 'Whether all events are being looked through for those without a place, as after a restore.';
COMMENT ON COLUMN agentq_internal.event_seal.at_xid IS 'How far that has come: the transaction.';
COMMENT ON COLUMN agentq_internal.event_seal.at_event IS 'How far that has come: the event.';
COMMENT ON COLUMN agentq_internal.event_seal.foreign_to IS 'Up to here the numbers of transactions may be those of another server.';
COMMENT ON COLUMN agentq_internal.event_seal.origin IS 'The server and database whose transactions are meant.';
COMMENT ON COLUMN agentq_internal.event_seal.updated_at IS 'When it was last written.';

CREATE VIEW agentq.v_event_partition AS
SELECT CASE WHEN s.relname LIKE 'event\_log%' THEN 'log' ELSE 'event' END AS holds,
       CASE WHEN s.relname LIKE '%audit' THEN 'audit' ELSE 'usual' END AS class,
       c.relname AS partition,
       (b.bounds)[1] AS lower, (b.bounds)[2] AS upper,
       pg_catalog.pg_total_relation_size(c.oid) AS bytes
FROM pg_catalog.pg_class s
JOIN pg_catalog.pg_inherits i ON i.inhparent = s.oid
JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
CROSS JOIN LATERAL (SELECT regexp_match(pg_catalog.pg_get_expr(c.relpartbound, c.oid), 'FROM \(''([^'']+)''\) TO \(''([^'']+)''\)') AS bounds) b
WHERE s.oid IN ('agentq_internal.event_usual'::regclass, 'agentq_internal.event_audit'::regclass,
                'agentq_internal.event_log_usual'::regclass, 'agentq_internal.event_log_audit'::regclass);
COMMENT ON VIEW agentq.v_event_partition IS 'The partitions of events and of their log.';
COMMENT ON COLUMN agentq.v_event_partition.holds IS 'event or log.';
COMMENT ON COLUMN agentq.v_event_partition.class IS 'audit, or usual for all else.';
COMMENT ON COLUMN agentq.v_event_partition.partition IS 'Its name.';
COMMENT ON COLUMN agentq.v_event_partition.lower IS 'Its first moment, or its first place in the log; NULL: it holds what has no partition.';
COMMENT ON COLUMN agentq.v_event_partition.upper IS 'The moment, or place, after its last one.';
COMMENT ON COLUMN agentq.v_event_partition.bytes IS 'Its size, with indexes.';

CREATE FUNCTION agentq_internal.fn_event_partition_add(p_class text, p_from timestamptz, p_to timestamptz) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' SET "TimeZone" = 'UTC' AS $$
DECLARE
    v_taken boolean;
BEGIN
    -- What lies in the rest stays there: the rest holds that time until it is over.
    EXECUTE format('SELECT EXISTS (SELECT FROM agentq_internal.%I WHERE event_at >= $1 AND event_at < $2)', 'event_' || p_class || '_rest')
    INTO v_taken USING p_from, p_to;
    IF v_taken THEN
        RETURN false;
    END IF;
    PERFORM agentq_internal.fn_event_partition_make('event_' || p_class,
        format('event_%s_%s', p_class, to_char(p_from, 'YYYYMMDD')), p_from::text, p_to::text);
    RETURN true;
END $$;
COMMENT ON FUNCTION agentq_internal.fn_event_partition_add(text, timestamptz, timestamptz) IS 'Makes the partition of a time, unless events of that time lie in the rest.';

CREATE FUNCTION agentq_internal.fn_event_log_add(p_class text, p_part bigint, p_size bigint) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF to_regclass(format('agentq_internal.event_log_%s_%s', p_class, p_part)) IS NULL THEN
        PERFORM agentq_internal.fn_event_partition_make('event_log_' || p_class, format('event_log_%s_%s', p_class, p_part),
            (p_part * p_size)::text, ((p_part + 1) * p_size)::text);
    END IF;
END $$;
COMMENT ON FUNCTION agentq_internal.fn_event_log_add(text, bigint, bigint) IS 'Makes a part of the log, unless it is there.';

-- Drops a partition of events that have outlived their time, and says so in the log.
CREATE FUNCTION agentq_internal.fn_event_partition_drop(p_class text, p_name text, p_upper timestamptz) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $$
BEGIN
    INSERT INTO agentq.event_chain AS c (chain, dropped_before) VALUES (p_class, p_upper)
    ON CONFLICT (chain) DO UPDATE SET dropped_before = greatest(c.dropped_before, excluded.dropped_before);
    IF p_name LIKE '%\_rest' THEN
        EXECUTE format('TRUNCATE agentq_internal.%I', p_name);
    ELSE
        EXECUTE format('DROP TABLE agentq_internal.%I', p_name);
    END IF;
END $$;
COMMENT ON FUNCTION agentq_internal.fn_event_partition_drop(text, text, timestamptz) IS 'Drops a partition, or empties a rest, whose events have outlived their time.';

-- Drops the oldest part of a chain, if all its events have outlived their time and are gone: an event that
-- is there without its place would get another one after a restore.
CREATE FUNCTION agentq_internal.fn_event_log_drop(p_class text, p_horizon timestamptz) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $$
DECLARE
    v_name text;
    v_last record;
    v_is_needed boolean;
    v_horizon timestamptz;
BEGIN
    EXECUTE format('SELECT min(event_at) FROM agentq_internal.%I', 'event_' || p_class || '_rest') INTO v_horizon;
    SELECT least(p_horizon, v_horizon, min(CASE WHEN v.holds = 'event' THEN v.lower::timestamptz END)) INTO v_horizon
    FROM agentq.v_event_partition v WHERE v.class = p_class;
    SELECT v.partition INTO v_name FROM agentq.v_event_partition v JOIN agentq.event_chain c ON c.chain = v.class
    WHERE v.class = p_class AND CASE WHEN v.holds = 'log' THEN v.upper::bigint END <= c.last_seq
    ORDER BY CASE WHEN v.holds = 'log' THEN v.lower::bigint END LIMIT 1;
    IF v_name IS NULL THEN
        RETURN NULL;
    END IF;
    EXECUTE format('SELECT place, hash, event_at FROM agentq_internal.%I ORDER BY seq DESC LIMIT 1', v_name) INTO v_last;
    IF v_last.event_at >= v_horizon THEN
        RETURN NULL;
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM agentq_internal.%I WHERE event_at >= $1)', v_name) INTO v_is_needed USING v_horizon;
    IF v_is_needed THEN
        RETURN NULL;
    END IF;
    UPDATE agentq.event_chain
    SET first_place = coalesce(v_last.place + 1, first_place), first_hash = coalesce(v_last.hash, first_hash),
        dropped_before = greatest(dropped_before, v_horizon)
    WHERE chain = p_class;
    EXECUTE format('DROP TABLE agentq_internal.%I', v_name);
    RETURN v_name;
END $$;
COMMENT ON FUNCTION agentq_internal.fn_event_log_drop(text, timestamptz) IS 'Drops the oldest part of a chain if all its events have outlived their time and are gone; its name, or NULL.';

SELECT pg_catalog.pg_extension_config_dump('agentq.event_chain', '');
SELECT pg_catalog.pg_extension_config_dump('agentq_internal.event_seal', '');
