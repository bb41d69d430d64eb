//! The live feed: the engine seals what is committed, and tells listeners.

use crate::{assert_sound, each, emit};
use agentq_tests::engine::{database, engine_cluster, running};
use agentq_tests::{Session, Value, eventually};
use postgres::fallible_iterator::FallibleIterator;
use std::time::{Duration, Instant};

/// Everything heard until nothing comes for a second.
fn heard(listener: &mut Session) -> Vec<Value> {
    let mut notifications = listener.0.notifications();
    let mut found = Vec::new();
    let mut waiting = notifications.timeout_iter(Duration::from_secs(1));
    while let Some(notification) = waiting.next().expect("the connection holds") {
        assert_eq!(notification.channel(), "agentq_event");
        found.push(serde_json::from_str(notification.payload()).expect("it is JSON"));
    }
    found
}

#[test]
fn the_engine_seals_what_is_committed_within_a_moment() {
    let db = database();
    let mut s = db.session();
    let mut slowest = Duration::ZERO;
    for n in 1..=10 {
        let began = Instant::now();
        emit(&mut s, "a", "x");
        eventually("it has its place", || s.count("agentq.event_log") == n);
        slowest = slowest.max(began.elapsed());
    }
    assert!(slowest < Duration::from_millis(900), "not at the next second, but at once: {slowest:?}");
    assert_sound(&mut s);
}

#[test]
fn listeners_hear_the_last_place_many_events_at_a_time() {
    let db = database();
    let (mut listener, mut s) = (db.session(), db.session());
    listener.run("LISTEN agentq_event");
    for _ in 0..300 {
        emit(&mut s, "a", "x");
    }
    s.run("BEGIN");
    emit(&mut s, "rolled back", "x");
    s.run("ROLLBACK");
    let heard = heard(&mut listener);
    let count: i64 = heard.iter().filter_map(|told| told["count"].as_i64()).sum();
    assert_eq!((heard.last().expect("something is heard")["last_seq"].as_i64(), count), (Some(300), 300), "{heard:?}");
    assert!(heard.len() < 150, "{} notifications for 300 events", heard.len());
    s.call("fn_config_set('queue.notify.enabled', 'false')");
    emit(&mut s, "a", "x");
    assert_eq!(self::heard(&mut listener), Vec::<Value>::new(), "the gate is closed");
    eventually("it is sealed all the same", || s.count("agentq.event_log") == 301);
}

#[test]
fn a_reader_that_waits_hears_of_an_event_through_the_engine() {
    let db = database();
    let mut s = db.session();
    let heard = std::thread::scope(|scope| {
        let reader = scope.spawn(|| db.session().call("fn_event_read(0, 10, interval '20 s')"));
        s.run("SELECT pg_sleep(0.3)");
        emit(&mut s, "now", "x");
        let emitted = Instant::now();
        let heard = reader.join().expect("the reader answers");
        assert!(emitted.elapsed() < Duration::from_secs(2), "{:?}", emitted.elapsed());
        heard
    });
    assert_eq!(each(&heard, "event_kind"), ["now"]);
}

#[test]
fn with_the_engines_gate_closed_readers_seal_for_themselves() {
    let db = database();
    let mut s = db.session();
    s.call("fn_config_set('queue.worker.enabled', 'false')");
    emit(&mut s, "a", "x");
    assert_eq!(each(&s.call("fn_event_read(0, 10, interval '5 s')"), "event_kind"), ["a"]);
}

#[test]
fn the_engine_makes_partitions_when_somebody_uses_events_and_not_before() {
    let db = database();
    let mut s = db.session();
    s.call("fn_engine_chore_set('keep_partitions', p_every_seconds => 0.1)");
    let runs = |s: &mut Session| {
        s.text("SELECT runs FROM agentq.v_engine_chore WHERE chore = 'keep_partitions'")
            .parse::<i64>()
            .expect("a number")
    };
    let before = runs(&mut s);
    eventually("it has run again", || runs(&mut s) > before + 2);
    assert_eq!(s.count("agentq.v_event_partition WHERE lower IS NOT NULL"), 0);
    assert_eq!(s.count("agentq.event_seal"), 0, "and the sealer has not begun");
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
    let looked = "SELECT coalesce(max(runs), 0) > 3 FROM agentq.v_engine_chore WHERE chore = 'seal_events'";
    eventually("the neighbour has looked", || neighbour.text(looked) == "t");
    s.call("fn_engine_chore_set('seal_events', p_enabled => true)");
    eventually("it has its place", || s.count("agentq.event_log") == 2);
    assert_eq!(neighbour.count("agentq.event_seal"), 0, "nobody uses events there");
}
