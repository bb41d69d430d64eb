//! Promises that can be read off the catalog.

use agentq_tests::{Database, Session, database};
use std::sync::OnceLock;

/// A session in a database that all tests here share, since they only read its catalog.
fn session() -> Session {
    static DB: OnceLock<Database<'static>> = OnceLock::new();
    DB.get_or_init(database).session()
}

/// The objects of the extension, for the queries below.
const MEMBERS: &str = "WITH member AS (
    SELECT classid, objid FROM pg_depend
    WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
      AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'agentq')
      -- From 18 on the types of rows and their arrays are members as well.
      AND NOT EXISTS (SELECT FROM pg_type t WHERE classid = 'pg_type'::regclass AND t.oid = objid
                      AND (t.typtype = 'c' OR t.typsubscript = 'array_subscript_handler'::regproc))
), rel AS (
    SELECT c.* FROM pg_class c JOIN member m ON m.classid = 'pg_class'::regclass AND m.objid = c.oid
), fn AS (
    SELECT p.*, l.lanname FROM pg_proc p
    JOIN member m ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
    JOIN pg_language l ON l.oid = p.prolang
)";

/// Asks about the members, and expects no answer.
#[track_caller]
fn assert_none(s: &mut Session, what: &str, query: &str) {
    let found = s.texts(&format!("{MEMBERS} {query}"));
    assert!(found.is_empty(), "{what}: {found:#?}");
}

/// The names of a function's parameters, in order.
fn parameters(s: &mut Session, function: &str) -> Vec<String> {
    s.texts(&format!("SELECT unnest(proargnames[1:pronargs]) FROM pg_proc WHERE oid = 'agentq.{function}'::regproc"))
}

#[test]
fn everything_has_a_comment() {
    let mut s = session();
    assert_none(
        &mut s,
        "objects without a comment",
        "SELECT pg_describe_object(classid, objid, 0) FROM member
         WHERE obj_description(objid, classid::regclass::name) IS NULL
           AND NOT EXISTS (SELECT FROM rel WHERE rel.oid = objid AND relkind = 'S')",
    );
    assert_none(
        &mut s,
        "columns without a comment",
        "SELECT rel.oid::regclass || '.' || a.attname FROM rel
         JOIN pg_attribute a ON a.attrelid = rel.oid AND a.attnum > 0 AND NOT a.attisdropped
         WHERE relkind <> 'S' AND col_description(rel.oid, a.attnum) IS NULL",
    );
    assert_none(
        &mut s,
        "triggers without a comment",
        "SELECT tgname || ' on ' || rel.oid::regclass FROM rel JOIN pg_trigger t ON t.tgrelid = rel.oid
         WHERE NOT tgisinternal AND obj_description(t.oid, 'pg_trigger') IS NULL",
    );
}

#[test]
fn the_schemas_hold_nothing_but_the_extension() {
    let mut s = session();
    assert_none(
        &mut s,
        "functions and relations beside the extension",
        "SELECT p.oid::regprocedure::text FROM pg_proc p
         WHERE pronamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND NOT EXISTS (SELECT FROM fn WHERE fn.oid = p.oid)
         UNION ALL
         SELECT c.oid::regclass::text FROM pg_class c
         WHERE relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND relkind IN ('r', 'v', 'm', 'S', 'p', 'f')
           AND NOT EXISTS (SELECT FROM rel WHERE rel.oid = c.oid)
           -- Partitions are made as time goes on, and are part of a table that belongs to it.
           AND NOT EXISTS (SELECT FROM pg_inherits i JOIN rel ON rel.oid = i.inhparent WHERE c.relispartition AND i.inhrelid = c.oid)",
    );
    assert_none(
        &mut s,
        "members outside the schemas",
        "SELECT oid::regclass::text FROM rel WHERE relnamespace NOT IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace)
         UNION ALL SELECT oid::regprocedure::text FROM fn WHERE pronamespace NOT IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace)",
    );
}

#[test]
fn nothing_is_for_everybody() {
    let mut s = session();
    assert_none(
        &mut s,
        "given to PUBLIC",
        "SELECT object || ' ' || privilege_type FROM (
            SELECT oid::regclass::text AS object,
                coalesce(relacl, acldefault((CASE relkind WHEN 'S' THEN 's' ELSE 'r' END)::\"char\", relowner)) AS acl FROM rel
            UNION ALL SELECT oid::regprocedure::text, coalesce(proacl, acldefault('f', proowner)) FROM fn
            UNION ALL SELECT nspname, coalesce(nspacl, acldefault('n', nspowner)) FROM pg_namespace WHERE nspname IN ('agentq', 'agentq_internal')
            UNION ALL SELECT attrelid::regclass || '.' || attname, attacl FROM pg_attribute JOIN rel ON rel.oid = attrelid
        ) o CROSS JOIN LATERAL aclexplode(acl) WHERE grantee = 0",
    );
}

#[test]
fn functions_with_the_owners_rights_fix_their_search_path() {
    let mut s = session();
    // pg_temp is searched first for tables and types unless it is named, and then it must be last.
    // The functions of the hot path see to it themselves; access_traps.rs tries them all.
    assert_none(
        &mut s,
        "definer functions with a loose search_path",
        "SELECT oid::regprocedure || ' ' || coalesce(array_to_string(proconfig, '; '), 'without settings') FROM fn
         WHERE prosecdef AND proname NOT IN ('fn_job_enqueue', 'fn_job_enqueue_batch', 'fn_job_enqueue_payloads', 'fn_job_claim', 'fn_job_claim_batch',
            'fn_job_ack', 'fn_job_ack_batch', 'fn_job_ack_and_claim', 'fn_job_ack_and_claim_batch') AND NOT EXISTS (SELECT FROM unnest(proconfig) c WHERE c ~ '^search_path=pg_catalog(, .*)?, pg_temp$')",
    );
    assert_none(
        &mut s,
        "functions in SQL or PL/pgSQL without a search_path",
        "SELECT oid::regprocedure::text FROM fn WHERE lanname IN ('sql', 'plpgsql')
         AND NOT EXISTS (SELECT FROM unnest(proconfig) c WHERE c ~ '^search_path=pg_catalog(, .*)?, pg_temp$')",
    );
}

#[test]
fn names_follow_one_pattern() {
    let mut s = session();
    assert_none(&mut s, "functions", "SELECT oid::regprocedure::text FROM fn WHERE proname !~ '^fn_[a-z]+(_[a-z]+)*$'");
    assert_none(
        &mut s,
        "views",
        "SELECT relname FROM rel WHERE relkind = 'v' AND relname NOT IN ('job_queue', 'job_attempt') AND relname !~ '^v_'",
    );
    assert_none(
        &mut s,
        "parameters",
        "SELECT oid::regprocedure || ' ' || coalesce(name, 'without a name')
         FROM fn CROSS JOIN LATERAL unnest(proargnames[1:pronargs]) name WHERE name !~ '^p_[a-z]'",
    );
    assert_none(
        &mut s,
        "functions with nameless parameters",
        "SELECT oid::regprocedure::text FROM fn WHERE pronargs > 0 AND proargnames IS NULL",
    );
}

#[test]
fn the_seed_functions_keep_their_parameters() {
    let mut s = session();
    let seed = [
        (
            "fn_job_enqueue",
            "p_job_kind p_idempotency_key p_actor p_payload_json p_source_ref p_target_ref p_payload_ref p_priority
             p_scheduled_at p_max_attempts p_run_id",
            11,
        ),
        ("fn_job_claim", "p_lease_owner p_job_kind p_lease_seconds", 3),
        ("fn_job_ack", "p_job_id p_lease_owner p_result", 3),
        ("fn_job_move_to_dead_letter", "p_job_id p_final_error p_moved_by", 3),
        ("fn_job_fail_or_retry", "p_job_id p_lease_owner p_error p_error_class", 4),
        (
            "fn_queue_heartbeat_tick",
            "p_executor_name p_executor_kind p_status p_current_job_id p_lease_owner p_metadata",
            6,
        ),
        ("fn_queue_stale_check", "p_threshold_seconds", 1),
    ];
    for (function, names, count) in seed {
        let names: Vec<_> = names.split_whitespace().collect();
        assert_eq!(names.len(), count, "{function}");
        let found = parameters(&mut s, function);
        assert_eq!(found[..count], names, "{function}");
        // What came later comes last and may be left out, so that a call of the seed still works.
        let row = s.text(&format!(
            "SELECT concat_ws(' ', pronargs - pronargdefaults <= {count}, prorettype::regtype)
             FROM pg_proc WHERE oid = 'agentq.{function}'::regproc"
        ));
        assert_eq!(row, "t jsonb", "{function}");
    }
    let added = |s: &mut Session, function: &str, count: usize| parameters(s, function)[count..].join(" ");
    assert_eq!(added(&mut s, "fn_job_enqueue", 11), "p_options");
    assert_eq!(added(&mut s, "fn_job_claim", 3), "p_options p_wait");
    assert_eq!(added(&mut s, "fn_job_ack", 3), "p_lease_token");
    assert_eq!(added(&mut s, "fn_job_fail_or_retry", 4), "p_lease_token p_retry_after p_verdict p_error_detail");
    assert_eq!(added(&mut s, "fn_job_move_to_dead_letter", 3), "p_letter_reason");
    assert_eq!(added(&mut s, "fn_queue_heartbeat_tick", 6), "");
    assert_eq!(added(&mut s, "fn_queue_stale_check", 1), "");
}

#[test]
fn the_stale_check_reads_with_the_callers_own_rights() {
    let mut s = session();
    let row =
        s.text("SELECT concat_ws(' ', prosecdef, provolatile) FROM pg_proc WHERE proname = 'fn_queue_stale_check'");
    assert_eq!(row, "f s");
}

#[test]
fn job_queue_shows_the_seeds_columns_in_order() {
    let mut s = session();
    let columns = s.texts(
        "SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute
         WHERE attrelid = 'agentq.job_queue'::regclass AND attnum > 0 ORDER BY attnum",
    );
    let seed = [
        "job_id uuid",
        "job_kind text",
        "state text",
        "source_ref text",
        "target_ref text",
        "payload_ref text",
        "payload_json jsonb",
        "priority integer",
        "scheduled_at timestamp with time zone",
        "picked_at timestamp with time zone",
        "finished_at timestamp with time zone",
        "lease_owner text",
        "lease_until timestamp with time zone",
        "attempts integer",
        "max_attempts integer",
        "idempotency_key text",
        "actor text",
        "run_id uuid",
        "last_error text",
        "created_at timestamp with time zone",
        "updated_at timestamp with time zone",
    ];
    assert_eq!(columns[..21], seed);
    let more = ["queue text", "last_heartbeat_at timestamp with time zone", "trace_id text", "correlation_id text"];
    assert_eq!(columns[21..], more);
}

#[test]
fn queue_health_has_twenty_five_columns_and_three_about_vacuum() {
    let mut s = session();
    let columns = s.texts(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'agentq.v_queue_health'::regclass AND attnum > 0 ORDER BY attnum",
    );
    assert_eq!(columns[25..], ["dead_rows", "vacuum_held_by", "vacuum_held_since"]);
}

#[test]
fn the_settings_start_with_the_documented_defaults() {
    let mut s = session();
    let rows = s.texts("SELECT key || ' ' || value FROM agentq.config ORDER BY key COLLATE \"C\"");
    let documented = [
        "engine.metrics.keep_seconds 604800",
        "events.audit_retention_days 400",
        "events.retention_days 30",
        "flow.compensation.include_unknown false",
        "flow.compensation.max_depth 2",
        "flow.effects.keep_seconds 31536000",
        "flow.result.max_bytes 262144",
        "flow.step_events true",
        "governance.event_batch 25",
        "governance.max_depth 5",
        "governance.reaction_batch 25",
        "queue.checkpoint.max_bytes 1048576",
        "queue.heartbeat.enabled true",
        "queue.heartbeat.keep_seconds 604800",
        "queue.heartbeat.reap_stale false",
        "queue.heartbeat.stale_threshold_seconds 300",
        "queue.job_substrate.enabled true",
        "queue.lease.duration_sec 300",
        "queue.notify.enabled true",
        "queue.notify.interval_ms 20",
        "queue.payload.max_bytes 262144",
        "queue.poison.max_crashes 3",
        "queue.replay.require_approval false",
        "queue.retention.keep_seconds 604800",
        "queue.retry.backoff_base_sec 10",
        "queue.retry.max_attempts_default 5",
        "queue.routing.alert_after_seconds 300",
        "queue.worker.enabled true",
    ];
    assert_eq!(rows, documented);
    for row in documented {
        let (key, value) = row.split_once(' ').expect("a key and a value");
        assert_eq!(s.text(&format!("SELECT agentq.fn_config_get('{key}')")), value);
    }
}

/// What is in the schema for callers and no level may use: it is for whoever administers the extension.
const ADMINISTRATORS: [&str; 4] = ["access_grant", "access_rule", "fn_access_grant", "fn_access_revoke"];

#[test]
fn what_no_level_may_use_is_internal() {
    let mut s = session();
    let unused = s.texts(&format!(
        "{MEMBERS}, thing AS (
            SELECT proname AS name FROM fn WHERE pronamespace = 'agentq'::regnamespace
            UNION ALL SELECT relname FROM rel WHERE relnamespace = 'agentq'::regnamespace AND relkind <> 'S'
            UNION ALL SELECT typname FROM pg_type JOIN member m ON m.classid = 'pg_type'::regclass AND m.objid = oid
            WHERE typnamespace = 'agentq'::regnamespace)
         SELECT name FROM thing WHERE name NOT IN (SELECT object FROM agentq.access_rule) ORDER BY 1"
    ));
    assert_eq!(unused, ADMINISTRATORS, "put it into agentq_internal, or say who may use it");
}

#[test]
fn what_is_internal_is_used_through_views_and_functions_alone() {
    let mut s = session();
    assert_none(
        &mut s,
        "internal relations that a level may use",
        "SELECT object FROM agentq.access_rule JOIN rel ON relname = object AND privilege <> 'EXECUTE'
         WHERE relnamespace = 'agentq_internal'::regnamespace",
    );
    assert_none(
        &mut s,
        "internal functions that a level may execute, though no view calls them",
        "SELECT object FROM agentq.access_rule JOIN fn ON proname = object AND privilege = 'EXECUTE'
         WHERE pronamespace = 'agentq_internal'::regnamespace AND NOT EXISTS (
            SELECT FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
            JOIN rel ON rel.oid = r.ev_class AND rel.relkind = 'v' WHERE d.refobjid = fn.oid)",
    );
    assert_none(
        &mut s,
        "names that are in both schemas",
        "SELECT proname FROM fn GROUP BY 1 HAVING count(DISTINCT pronamespace) > 1
         UNION ALL SELECT relname FROM rel GROUP BY 1 HAVING count(*) > 1",
    );
}

#[test]
fn every_access_rule_names_something_that_exists() {
    let mut s = session();
    assert_none(
        &mut s,
        "access rules for nothing",
        "SELECT object FROM agentq.access_rule
         WHERE CASE privilege WHEN 'EXECUTE' THEN object NOT IN (SELECT proname FROM fn)
                              ELSE object NOT IN (SELECT relname FROM rel) END",
    );
}
