//! Dumps take events, their partitions and their log along, into another server or the same one.

use crate::{assert_sound, each, emit, seal};
use agentq_tests::engine::{engine_cluster, running};
use agentq_tests::programs::{must_run, plain_database, program};
use agentq_tests::{Cluster, Database, Session, database, eventually, expect, shared_cluster};

/// Events in partitions and in the rest, sealed and not sealed, of both classes.
fn fill(s: &mut Session) {
    emit(s, "in the rest", "x");
    s.call("fn_engine_tick('keep_partitions')");
    s.run("SET agentq.clock_offset = 86400");
    emit(s, "in a partition", "x");
    s.call(r#"fn_event_emit('audit', 'x', '{}', '{"purpose": "audit", "dedupe_key": "k"}')"#);
    seal(s);
    emit(s, "not sealed", "x");
    s.run("RESET agentq.clock_offset");
}

fn restored<'c>(db: &Database<'_>, into: &'c Cluster) -> Database<'c> {
    let restored = plain_database(into);
    let dump = must_run(program("pg_dump", db).arg("-Fc"), b"");
    must_run(program("pg_restore", &restored).args(["--exit-on-error", "-d", &restored.name]), &dump);
    restored
}

const ROWS: [&str; 4] = [
    "SELECT to_jsonb(e)::text FROM agentq.event e ORDER BY event_id",
    "SELECT to_jsonb(l)::text FROM agentq.event_log l ORDER BY seq",
    "SELECT to_jsonb(k)::text FROM agentq_internal.event_key k ORDER BY 1",
    "SELECT to_jsonb(c)::text FROM agentq.event_chain c ORDER BY 1",
];

#[test]
fn a_restored_log_is_the_same_and_goes_on() {
    let db = database();
    let mut s = db.session();
    fill(&mut s);
    let restored = restored(&db, shared_cluster());
    let mut r = restored.session();
    for rows in ROWS {
        assert_eq!(r.texts(rows), s.texts(rows), "{rows}");
    }
    let parts = "SELECT partition || coalesce(lower, '') FROM agentq.v_event_partition ORDER BY 1";
    assert_eq!(r.texts(parts), s.texts(parts));
    emit(&mut r, "after the restore", "x");
    assert_eq!(each(&r.call("fn_event_read(3)"), "event_kind"), ["not sealed", "after the restore"]);
    expect(&mut r, "duplicate", r#"fn_event_emit('audit', 'x', '{}', '{"dedupe_key": "k"}')"#);
    assert_sound(&mut r);
    // What was made by hand elsewhere is still what the triggers guard.
    for partition in r.texts("SELECT partition FROM agentq.v_event_partition") {
        assert_eq!(r.fails(&format!("TRUNCATE agentq_internal.{partition}")).code, "23001", "{partition}");
    }
    r.call("fn_engine_tick('keep_partitions')");
    let twice = self::restored(&restored, shared_cluster());
    for rows in ROWS {
        assert_eq!(twice.session().texts(rows), r.texts(rows), "{rows}");
    }
}

#[test]
fn where_transactions_have_other_numbers_nothing_is_sealed_twice_or_left_out() {
    // Not the server that other tests share: its numbers may be far ahead.
    let one = Cluster::start("one", &agentq_tests::Options::default());
    one.make_template();
    let db = one.database();
    let mut s = db.session();
    // Numbers that the other server has yet to come to.
    for _ in 0..300 {
        s.run("SELECT pg_current_xact_id()");
    }
    fill(&mut s);
    let other = Cluster::start("other", &agentq_tests::Options::default());
    let restored = restored(&db, &other);
    let mut r = restored.session();
    let ahead = r.text("SELECT max(xid::text::bigint) > pg_current_xact_id()::text::bigint FROM agentq.event");
    assert_eq!(ahead, "t", "the numbers of the dump are ahead of this server's");
    for n in 0..800 {
        r.run("SELECT agentq.fn_event_emit('new', 'x')");
        if n % 20 == 0 {
            seal(&mut r);
        }
    }
    seal(&mut r);
    let caught_up = r.text("SELECT foreign_to < pg_current_xact_id() FROM agentq_internal.event_seal");
    assert_eq!(caught_up, "t");
    assert_eq!((r.count("agentq.event"), r.count("agentq.event_log")), (804, 804));
    assert_eq!(r.text("SELECT count(DISTINCT event_id) FROM agentq.event_log"), "804");
    assert_sound(&mut r);
}

#[test]
fn a_restore_under_the_eyes_of_the_engine_works() {
    let cluster = engine_cluster("restored", &[]);
    let db = running(cluster.database());
    let mut s = db.session();
    s.call("fn_engine_chore_set('keep_partitions', p_every_seconds => 0.1)");
    s.run("SELECT agentq.fn_event_emit('a', n::text) FROM generate_series(1, 500) n");
    eventually("there are partitions", || s.count("agentq.v_event_partition WHERE lower IS NOT NULL") > 8);
    emit(&mut s, "b", "x");
    eventually("all is sealed", || s.count("agentq.event_log") == 501);
    let restored = running(restored(&db, &cluster));
    let mut r = restored.session();
    assert_eq!(r.texts(ROWS[1]), s.texts(ROWS[1]));
    emit(&mut r, "c", "x");
    eventually("the log goes on", || r.count("agentq.event_log") == 502);
    assert_sound(&mut r);
    // In the same database, too.
    let dump = must_run(&mut program("pg_dump", &db), b"");
    s.run("DROP EXTENSION agentq");
    must_run(program("psql", &db).args(["-X", "-q", "-v", "ON_ERROR_STOP=1"]), &dump);
    let mut s = db.session();
    emit(&mut s, "c", "x");
    assert_eq!(s.call("fn_event_read(501, 10, interval '60 s')")["count"], 1);
    assert_sound(&mut s);
}

#[test]
fn the_extension_goes_with_its_partitions_and_comes_again() {
    let db = database();
    let mut s = db.session();
    fill(&mut s);
    s.run("DROP EXTENSION agentq");
    assert_eq!(s.count("pg_class WHERE relname LIKE 'event%'"), 0);
    assert_eq!(s.count("pg_namespace WHERE nspname LIKE 'agentq%'"), 0);
    s.run("CREATE EXTENSION agentq");
    emit(&mut s, "a", "x");
    assert_eq!(each(&s.call("fn_event_read()"), "seq"), ["1"]);
    assert_sound(&mut s);
}
