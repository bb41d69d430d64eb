//! The live feed: the engine seals what is committed, and tells listeners.

use crate::{assert_sound, each, emit};
use agentq_tests::engine::{database, engine_cluster, running, runs};
use agentq_tests::{Value, eventually, heard, sooner_than, timed};
use std::time::Duration;

/// How many events were told of.
fn count(heard: &[Value]) -> i64 {
    heard.iter().filter_map(|told| told["count"].as_i64()).sum()
}

#[test]
fn the_engine_seals_what_is_committed_within_a_moment() {
    let db = database();
    let mut s = db.session();
    let mut events = 0;
    let mut sealed = || {
        emit(&mut s, "a", "x");
        events += 1;
        eventually("it has its place", || s.count("agentq.event_log") == events);
    };
    // Whoever comes just after a turn of the engine has the next one a second later.
    sealed();
    sooner_than(Duration::from_millis(500), "not at the next second, but at once", || timed(&mut sealed).1);
    assert_sound(&mut s);
}

#[test]
fn listeners_hear_the_last_place_many_events_at_a_time() {
    let db = database();
    let (mut listener, mut s) = (db.session(), db.session());
    listener.run("LISTEN agentq_event");
    // However slowly they come, they wait for each other.
    s.call("fn_engine_chore_set('seal_events', p_enabled => false)");
    for _ in 0..300 {
        emit(&mut s, "a", "x");
    }
    s.run("BEGIN");
    emit(&mut s, "rolled back", "x");
    s.run("ROLLBACK");
    s.call("fn_engine_chore_set('seal_events', p_enabled => true)");
    let told = heard(&mut listener, "agentq_event", |heard| count(heard) == 300);
    assert_eq!(
        (told.last().expect("something is heard")["last_seq"].as_i64(), count(&told)),
        (Some(300), 300),
        "{told:?}"
    );
    assert!(told.len() < 150, "{} notifications for 300 events", told.len());
    s.call("fn_config_set('queue.notify.enabled', 'false')");
    emit(&mut s, "a", "x");
    eventually("it is sealed all the same", || s.count("agentq.event_log") == 301);
    let told = heard(&mut listener, "agentq_event", |_| true);
    assert_eq!(told, Vec::<Value>::new(), "the gate is closed");
}

#[test]
fn a_reader_that_waits_hears_of_an_event_through_the_engine() {
    crate::hears_soon(&database());
}

#[test]
fn with_the_engines_gate_closed_readers_seal_for_themselves() {
    let db = database();
    let mut s = db.session();
    s.call("fn_config_set('queue.worker.enabled', 'false')");
    emit(&mut s, "a", "x");
    assert_eq!(each(&s.call("fn_event_read(0, 10, interval '60 s')"), "event_kind"), ["a"]);
}

#[test]
fn the_engine_makes_partitions_when_somebody_uses_events_and_not_before() {
    let db = database();
    let mut s = db.session();
    s.call("fn_engine_chore_set('keep_partitions', p_every_seconds => 0.1)");
    let before = runs(&mut s, "keep_partitions");
    eventually("it has run again", || runs(&mut s, "keep_partitions") > before + 2);
    assert_eq!(s.count("agentq.v_event_partition WHERE lower IS NOT NULL"), 0);
    assert_eq!(s.count("agentq_internal.event_seal"), 0, "and the sealer has not begun");
    emit(&mut s, "a", "x");
    eventually("there are partitions", || {
        s.count("agentq.v_event_partition WHERE holds = 'event' AND lower IS NOT NULL") >= 8
    });
    eventually("it has its place", || s.count("agentq.event_log") == 1);
    let failures = s.count("agentq.v_engine_chore WHERE failures > 0");
    assert_eq!(failures, 0);
    assert_sound(&mut s);
}

#[test]
fn two_databases_whose_numbers_fall_on_one_place_do_not_push_each_other_out() {
    let cluster = engine_cluster("feed-neighbours", &[]);
    let db = running(cluster.database());
    let mut s = db.session();
    emit(&mut s, "a", "x");
    eventually("it has its place", || s.count("agentq.event_log") == 1);
    s.call("fn_engine_chore_set('seal_events', p_enabled => false)");
    let number: i64 =
        s.text("SELECT oid FROM pg_database WHERE datname = current_database()").parse().expect("a number");
    cluster
        .session("postgres")
        .run(&format!("CREATE DATABASE neighbour TEMPLATE agentq_template OID = {}", number + 1024 * 100));
    emit(&mut s, "b", "x");
    // The neighbour's engine looks whether there is anything to seal there.
    let mut neighbour = cluster.session("neighbour");
    neighbour.call("fn_engine_chore_set('seal_events', p_every_seconds => 0.1)");
    eventually("the neighbour has looked", || runs(&mut neighbour, "seal_events") > 3);
    s.call("fn_engine_chore_set('seal_events', p_enabled => true)");
    eventually("it has its place", || s.count("agentq.event_log") == 2);
    assert_eq!(neighbour.count("agentq_internal.event_seal"), 0, "nobody uses events there");
}
