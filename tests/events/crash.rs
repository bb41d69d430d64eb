//! A crash between the first events of a database and their places.

use crate::{assert_sound, emit};
use agentq_tests::engine::{engine_cluster, running, runs};
use agentq_tests::programs::{must_run, plain_database, program};
use agentq_tests::{Cluster, Database, Session, Stop, eventually, expect};

/// The name of a new database whose engine runs, and can give no places: somebody has the log.
fn unsealed(cluster: &Cluster) -> (String, Session) {
    let db = running(cluster.database());
    let mut keeper = db.session();
    keeper.run("BEGIN; LOCK TABLE agentq.event_log IN EXCLUSIVE MODE");
    let name = db.name.clone();
    std::mem::forget(db);
    (name, keeper)
}

fn crash(cluster: &mut Cluster) {
    cluster.end(Stop::KillAll);
    cluster.start_again();
}

#[test]
fn the_first_events_of_a_database_are_sealed_after_a_crash_with_nobody_writing() {
    let mut cluster = engine_cluster("first-events", &[]);
    // One event, in a transaction of its own.
    let (plain, _keeper) = unsealed(&cluster);
    emit(&mut cluster.session(&plain), "a", "x");
    // One whose transaction has undone a part, with an event in it.
    let (partly, _keeper2) = unsealed(&cluster);
    let mut s = cluster.session(&partly);
    s.run("BEGIN; SAVEPOINT a");
    emit(&mut s, "undone", "x");
    s.run("ROLLBACK TO a");
    emit(&mut s, "a", "x");
    s.run("COMMIT");
    // One behind a transaction that has kept nothing.
    let (later, _keeper3) = unsealed(&cluster);
    let mut s = cluster.session(&later);
    s.run("BEGIN; SAVEPOINT a");
    emit(&mut s, "undone", "x");
    s.run("ROLLBACK TO a; COMMIT");
    emit(&mut s, "a", "x");
    // One that nobody has written to.
    let (unused, _keeper4) = unsealed(&cluster);
    for name in [&plain, &partly, &later] {
        let mut s = cluster.session(name);
        assert_eq!((s.count("agentq.event"), s.count("agentq.event_log")), (1, 0), "{name}");
    }
    crash(&mut cluster);
    for name in [&plain, &partly, &later] {
        let mut s = cluster.session(name);
        eventually("the engine gives the event its place", || s.count("agentq.event_log") == 1);
        assert_sound(&mut s);
    }
    let mut s = cluster.session(&unused);
    eventually("the engine has looked there, too", || runs(&mut s, "seal_events") > 2);
    assert_eq!(s.count("agentq_internal.event_seal"), 0, "nobody uses events there");
}

#[test]
fn first_writers_do_not_wait_for_each_other() {
    let mut cluster = engine_cluster("first-writers", &[]);
    let (name, keeper) = unsealed(&cluster);
    let (mut one, mut two) = (cluster.session(&name), cluster.session(&name));
    for s in [&mut one, &mut two] {
        s.run("SET lock_timeout = '60s'; BEGIN");
        emit(s, "a", "x");
    }
    one.run("ROLLBACK");
    two.run("COMMIT");
    emit(&mut one, "b", "x");
    let mut s = cluster.session(&name);
    assert_eq!(s.count("agentq_internal.event_origin"), 1, "one row is enough, once it is seen");
    drop((one, two, keeper));
    crash(&mut cluster);
    let mut s = cluster.session(&name);
    eventually("both have their places", || s.count("agentq.event_log") == 2);
    assert_sound(&mut s);
}

#[test]
fn a_restored_database_is_left_alone_after_a_crash_until_somebody_uses_events() {
    let mut cluster = engine_cluster("restored-crash", &[]);
    let (name, _keeper) = unsealed(&cluster);
    emit(&mut cluster.session(&name), "a", "x");
    let source = Database { cluster: &cluster, name };
    let dump = must_run(program("pg_dump", &source).arg("-Fc"), b"");
    let restored = plain_database(&cluster);
    must_run(program("pg_restore", &restored).args(["--exit-on-error", "-d", &restored.name]), &dump);
    let (source, restored) = [source, restored].map(|db| (db.name.clone(), std::mem::forget(db)).0).into();
    crash(&mut cluster);
    let mut s = cluster.session(&source);
    eventually("the events of the source are sealed", || s.count("agentq.event_log") == 1);
    let mut r = cluster.session(&restored);
    let before = runs(&mut r, "seal_events");
    eventually("the engine has looked", || runs(&mut r, "seal_events") > before + 2);
    assert_eq!((r.count("agentq.event"), r.count("agentq.event_log")), (1, 0), "a restore may still be under way");
    expect(&mut r, "emitted", "fn_event_emit('b', 'x')");
    eventually("both are sealed", || r.count("agentq.event_log") == 2);
    assert_sound(&mut r);
}
