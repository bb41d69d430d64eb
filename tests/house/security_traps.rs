//! Traps made from the catalog, so that none can be forgotten: for every function, operator, relation and
//! type that agentq's SQL could mean when it does not name a schema, one of the caller's own that is
//! found first. Every function is then called at every level, and nothing of the caller's may run as
//! anybody else.

use crate::access::{LEVELS, with_levels};
use crate::access_traps::{lay, log};
use crate::every_call::{Call, World, every_call};
use agentq_tests::{Database, Session, database};

/// Types that statements name without a schema.
const TYPES: [&str; 13] = [
    "date",
    "oid",
    "name",
    "jsonpath",
    "oidvector",
    "regrole",
    "regnamespace",
    "regprocedure",
    "uuid",
    "timestamptz",
    "jsonb",
    "text",
    "regclass",
];

/// Lays the traps into the schemas evil and pg_temp of this session, which has evil.note.
pub fn arm(owner: &mut Session, s: &mut Session) {
    // Or these would find the traps that are there already.
    s.run("SET search_path = pg_catalog, pg_temp");
    // Functions of pg_catalog and of ours, with the arguments of the original.
    s.run(
        "CREATE FUNCTION evil.make(statement text) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog AS $$
             BEGIN EXECUTE statement; RETURN true;
             EXCEPTION WHEN OTHERS THEN RETURN false; END $$;
         CREATE FUNCTION evil.spring_any() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS
             $$ BEGIN PERFORM evil.note('table ' || TG_TABLE_NAME); RETURN NULL; END $$",
    );
    let made = |s: &mut Session, what: &str, from: &str| {
        let made: i64 = s
            .text(&format!("SELECT count(*) FILTER (WHERE evil.make(t)) FROM ({from}) AS x(t)"))
            .parse()
            .expect("a number");
        assert!(made > 0, "no {what} was made");
        made
    };
    let functions = "SELECT format('CREATE FUNCTION evil.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', p.proname,
                pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
                format('BEGIN PERFORM evil.note(%L); RETURN%s; END', 'function ' || p.proname,
                    CASE WHEN p.proretset OR p.proargmodes IS NOT NULL THEN '' ELSE ' NULL' END))
         FROM pg_proc p WHERE p.prokind = 'f' AND p.prorettype <> 'trigger'::regtype
         AND (p.pronamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) OR p.pronamespace = 'pg_catalog'::regnamespace AND p.proname IN (
            'abs', 'age', 'array_agg', 'array_append', 'array_length', 'array_position', 'array_remove', 'array_to_string',
            'btrim', 'cardinality', 'clock_timestamp', 'date_part', 'date_trunc', 'extract', 'gen_random_uuid', 'generate_series',
            'has_table_privilege', 'int4', 'int8', 'isfinite', 'jsonb_array_elements', 'jsonb_array_elements_text', 'jsonb_array_length',
            'jsonb_each', 'jsonb_each_text', 'jsonb_object_keys', 'jsonb_path_exists', 'jsonb_path_match', 'jsonb_path_query',
            'jsonb_path_query_array', 'jsonb_path_query_first', 'jsonb_populate_record', 'jsonb_set', 'jsonb_strip_nulls', 'jsonb_to_record',
            'jsonb_typeof', 'left', 'length', 'lower', 'md5', 'now', 'numeric', 'octet_length', 'pg_advisory_xact_lock',
            'pg_notify', 'pg_relation_size', 'pg_stat_get_live_tuples', 'pg_total_relation_size', 'pg_try_advisory_xact_lock', 'position',
            'regexp_replace', 'replace', 'round', 'sha256', 'split_part', 'starts_with', 'string_to_array', 'substring', 'text', 'timezone',
            'to_char', 'to_json', 'to_jsonb', 'to_regclass', 'to_timestamp', 'transaction_timestamp', 'trunc', 'txid_current', 'unnest',
            'upper', 'width_bucket', 'pg_current_xact_id', 'pg_snapshot_xmin', 'pg_current_snapshot', 'row_to_json', 'nextval', 'currval'))";
    assert!(made(s, "function", functions) > 200);
    // An operator of the same name and types is preferred to that of pg_catalog.
    let operators = "SELECT format('CREATE FUNCTION evil.op_%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS %L', o.oid, o.oprleft::regtype,
                o.oprright::regtype, o.oprresult::regtype, format('BEGIN PERFORM evil.note(%L); RETURN NULL; END',
                format('operator %s of %s', o.oprname, o.oprleft::regtype)))
            || format('; CREATE OPERATOR evil.%s (FUNCTION = evil.op_%s, LEFTARG = %s, RIGHTARG = %s)', o.oprname, o.oid,
                o.oprleft::regtype, o.oprright::regtype)
         FROM pg_operator o WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprleft <> 0
         AND o.oprname IN ('=', '<>', '<', '>', '<=', '>=', '+', '-', '*', '/', '||', '->', '->>', '@>', '<@', '?', '?|', '?&', '&&', '~~',
            '!~~', '~', '#>', '#-', '%') AND o.oprleft::regtype::text IN ('uuid', 'text', 'integer', 'bigint', 'smallint', 'numeric',
            'double precision', 'timestamp with time zone', 'interval', 'date', 'boolean', 'jsonb', 'name', 'oid', '\"char\"', 'xid8', 'anyarray')";
    assert!(made(s, "operator", operators) > 200);
    relations(owner, s, "evil");
}

/// Lays those that only the session itself can lay.
pub fn arm_temporary(owner: &mut Session, s: &mut Session) {
    s.run("SET search_path = pg_catalog, pg_temp");
    relations(owner, s, "pg_temp");
    for name in TYPES {
        let domain = format!("CREATE DOMAIN pg_temp.{name} AS pg_catalog.{name} CHECK (evil.note(''type {name}''))");
        s.run(&format!("SELECT evil.make('{domain}')"));
    }
}

/// Relations and domains of ours, by name.
fn relations(owner: &mut Session, s: &mut Session, schema: &str) {
    let statements = owner.texts(
        "SELECT format('CREATE VIEW SCHEMA.%I AS SELECT %s WHERE evil.note(%L)', c.relname,
                string_agg(format('NULL::%s AS %I', format_type(a.atttypid, a.atttypmod), a.attname), ', ' ORDER BY a.attnum),
                'read ' || c.relname)
            || format('; CREATE TRIGGER spring INSTEAD OF INSERT OR UPDATE OR DELETE ON SCHEMA.%I FOR EACH ROW
                EXECUTE FUNCTION evil.spring_any()', c.relname)
         FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
         WHERE c.relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND c.relkind IN ('r', 'p', 'v') GROUP BY c.relname
         UNION ALL
         SELECT format('CREATE DOMAIN SCHEMA.%I AS text CHECK (evil.note(%L))', t.typname, 'type ' || t.typname)
         FROM pg_type t WHERE t.typnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND t.typtype = 'd'",
    );
    assert!(statements.len() > 80);
    for statement in statements {
        // Some are there already, as tables.
        let statement = statement.replace("SCHEMA", schema).replace('\'', "''");
        s.run(&format!("SELECT evil.make('{statement}')"));
    }
}

/// How often a trap was sprung with the rights of another, also in what was rolled back.
fn sprung(owner: &mut Session) -> i64 {
    let count = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM evil.sprung";
    owner.text(count).parse().expect("a number")
}

/// Makes a call that leaves nothing behind; the SQLSTATE of its refusal, if it is refused.
fn attempt(s: &mut Session, call: &Call) -> Option<String> {
    let outcome = s.0.simple_query(&format!("BEGIN; SELECT {}; ROLLBACK", call.sql()));
    s.run("ROLLBACK");
    outcome.err().and_then(|error| error.code().map(|code| code.code().to_owned()))
}

#[test]
fn no_function_runs_anything_of_its_callers_at_any_level() {
    let db = database();
    let mut owner = db.session();
    let world = World::make(&mut owner);
    let calls = every_call(&mut owner, &world);
    let _mallory = mallory_with(&db);
    for level in LEVELS {
        let (_, mut s) = with_levels(&db, level, &[level]);
        arm_temporary(&mut owner, &mut s);
        s.run("SET search_path = evil, pg_temp, pg_catalog, agentq, public");
        let mut refused = Vec::new();
        for call in &calls {
            let code = attempt(&mut s, call);
            assert_eq!(sprung(&mut owner), 0, "{level}: {}: {:?}", call.function, log(&db));
            if code.is_some_and(|code| code != "42501") {
                refused.push(call.function.clone());
            }
        }
        // Most of the calls are good ones, so they get to whatever the function does.
        assert!(refused.len() <= 12, "{level}: {refused:?}");
        // With nothing in the caller's own name either: its names are not even looked for.
        assert_eq!(log(&db), Vec::<String>::new(), "{level}");
    }
}

/// A session whose traps are laid, and which may be forgotten: they stay.
fn mallory_with(db: &Database<'_>) -> (String, Session) {
    let (role, mut s) = with_levels(db, "mallory", &[]);
    let mut owner = db.session();
    owner.run(&format!(
        "GRANT CREATE ON DATABASE {} TO \"{role}\"; GRANT USAGE ON SCHEMA agentq TO \"{role}\"",
        db.name
    ));
    lay(db, &mut s);
    arm(&mut owner, &mut s);
    (role, s)
}

/// How many of the functions must be caught when none of them declares its search path. Most of the
/// others push one themselves, too, or are made of Rust alone.
const CAUGHT: usize = 35;

#[test]
fn functions_without_their_search_path_would_be_caught() {
    let db = database();
    let mut owner = db.session();
    let world = World::make(&mut owner);
    let calls = every_call(&mut owner, &world);
    let _mallory = mallory_with(&db);
    let (_, mut s) = with_levels(&db, "operator", &["operator"]);
    arm_temporary(&mut owner, &mut s);
    // One that falls into a trap may never come to an end.
    s.run("SET statement_timeout = '1s'; SET search_path = evil, pg_temp, pg_catalog, agentq, public");
    owner.run(
        "DO $$ DECLARE f regprocedure; BEGIN
            FOR f IN SELECT oid FROM pg_proc WHERE pronamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND prosecdef AND proconfig IS NOT NULL
            LOOP EXECUTE format('ALTER FUNCTION %s RESET search_path', f); END LOOP;
         END $$",
    );
    let definers = owner.texts(
        "SELECT proname FROM pg_proc WHERE pronamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND prosecdef AND prorettype <> 'trigger'::regtype",
    );
    let (mut caught, mut quiet) = (0, Vec::new());
    for call in calls.iter().filter(|call| definers.contains(&call.function)) {
        let before = sprung(&mut owner);
        attempt(&mut s, call);
        if sprung(&mut owner) > before { caught += 1 } else { quiet.push(call.function.clone()) }
    }
    assert!(caught >= CAUGHT, "only {caught} were caught, and these not: {quiet:?}");
}
