//! Places in the log: each committed event gets one, none is left out, none comes later.

use crate::{assert_sound, each, emit, seal};
use agentq_tests::engine::engine_cluster;
use agentq_tests::{Cluster, Options, PATIENCE, Session, database, eventually, expect};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn events_get_places_in_the_order_of_their_transactions() {
    let db = database();
    let mut s = db.session();
    for n in 1..=5 {
        emit(&mut s, &format!("k{n}"), "x");
    }
    s.run("BEGIN");
    for n in 6..=8 {
        s.call(&format!(r#"fn_event_emit('k{n}', 'x', p_options => '{{"purpose": "audit"}}')"#));
    }
    s.run("COMMIT");
    seal(&mut s);
    let read = s.call("fn_event_read()");
    assert_eq!(each(&read, "event_kind"), ["k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8"]);
    assert_eq!(each(&read, "seq"), ["1", "2", "3", "4", "5", "6", "7", "8"]);
    assert_eq!(
        s.texts("SELECT purpose || place FROM agentq.event_log ORDER BY seq")[4..],
        ["event5", "audit1", "audit2", "audit3"]
    );
    assert_sound(&mut s);
}

#[test]
fn a_transaction_that_stays_open_holds_up_its_own_events_and_no_others() {
    let db = database();
    let (mut slow, mut s) = (db.session(), db.session());
    slow.run("BEGIN");
    emit(&mut slow, "slow", "x");
    for round in 0..3 {
        emit(&mut s, &format!("quick {round}"), "x");
        seal(&mut s);
        assert_eq!(s.count("agentq.event_log"), round + 1);
    }
    let before = s.call("fn_event_read()");
    assert_eq!(each(&before, "event_kind"), ["quick 0", "quick 1", "quick 2"]);
    slow.run("COMMIT");
    emit(&mut s, "last", "x");
    let after = s.call(&format!("fn_event_read({})", before["next_after"]));
    assert_eq!(each(&after, "event_kind"), ["slow", "last"], "what comes late comes after, not behind");
    assert_sound(&mut s);
}

#[test]
fn a_prepared_transaction_gets_its_places_when_it_is_committed() {
    let db = database();
    let mut s = db.session();
    s.run("BEGIN");
    emit(&mut s, "prepared", "x");
    s.run(&format!("PREPARE TRANSACTION '{}'", db.name));
    emit(&mut s, "other", "x");
    seal(&mut s);
    s.run(&format!("COMMIT PREPARED '{}'", db.name));
    seal(&mut s);
    assert_eq!(each(&s.call("fn_event_read()"), "event_kind"), ["other", "prepared"]);
    assert_sound(&mut s);
}

#[test]
fn what_does_not_fit_into_one_turn_is_sealed_in_several() {
    let db = database();
    let (mut early, mut s) = (db.session(), db.session());
    early.run("BEGIN");
    early.run("SELECT agentq.fn_event_emit('early', n::text) FROM generate_series(1, 4500) n");
    emit(&mut s, "first", "x");
    seal(&mut s);
    s.run("SELECT agentq.fn_event_emit('late', n::text) FROM generate_series(1, 4500) n");
    early.run("COMMIT");
    // One turn at a time, and between two of them more is committed.
    let mut places = s.count("agentq.event_log");
    for turn in 0.. {
        emit(&mut s, "between", &turn.to_string());
        s.call(&format!("fn_event_read({places}, 1)"));
        let now = s.count("agentq.event_log");
        assert!(now - places <= 2_000, "a turn gave {} places", now - places);
        places = now;
        if s.text("SELECT target IS NULL FROM agentq_internal.event_seal") == "t" {
            break;
        }
    }
    seal(&mut s);
    assert_eq!(s.count("agentq.event_log"), s.count("agentq.event"));
    let wrong = s.count("(SELECT e.subject::int - lag(e.subject::int) OVER (PARTITION BY e.event_kind ORDER BY l.seq) AS step
        FROM agentq.event_log l JOIN agentq.event e USING (event_id) WHERE e.event_kind IN ('early', 'late')) x WHERE step <> 1");
    assert_eq!(wrong, 0, "the events of a transaction keep their order");
    assert_sound(&mut s);
}

#[test]
fn as_many_events_as_a_turn_seals_do_not_hold_up_the_next_one() {
    let db = database();
    let mut s = db.session();
    let mut after = 0;
    // The first time all events are gone through, the second time those that are new.
    for round in 0..2 {
        s.run("SELECT agentq.fn_event_emit('many', n::text) FROM generate_series(1, 2000) n");
        for _ in 0..3 {
            let read = s.call(&format!("fn_event_read({after}, 1000)"));
            after = read["next_after"].as_i64().expect("a place");
        }
        assert_eq!(after, 2001 * round + 2000);
        emit(&mut s, "one more", "x");
        let read = s.call(&format!("fn_event_read({after}, 10, interval '60 s')"));
        assert_eq!(each(&read, "event_kind"), ["one more"], "round {round}");
        after += 1;
    }
    assert_sound(&mut s);
}

#[test]
fn one_seals_at_a_time_and_others_do_not_wait_for_it() {
    let db = database();
    let (mut sealer, mut s) = (db.session(), db.session());
    emit(&mut s, "a", "x");
    seal(&mut s);
    emit(&mut s, "b", "x");
    sealer.run("BEGIN");
    seal(&mut sealer);
    s.run("SET lock_timeout = '20s'");
    assert_eq!(s.call("fn_event_read(1)")["code"], "empty", "it is sealed, and not committed");
    sealer.run("ROLLBACK");
    let read = s.call("fn_event_read(1)");
    assert_eq!((each(&read, "seq"), each(&read, "event_kind")), (vec!["2".to_owned()], vec!["b".to_owned()]));
    assert_sound(&mut s);
}

#[test]
fn a_sealer_does_not_pass_over_what_its_own_transaction_writes_later() {
    let db = database();
    let (mut a, mut s) = (db.session(), db.session());
    a.run("BEGIN");
    emit(&mut a, "before", "x");
    // Numbers go on, so that this transaction is no longer the youngest.
    for _ in 0..3 {
        emit(&mut s, "other", "x");
    }
    seal(&mut a);
    emit(&mut a, "after", "x");
    seal(&mut a);
    a.run("COMMIT");
    emit(&mut s, "last", "x");
    seal(&mut s);
    assert_eq!((s.count("agentq.event"), s.count("agentq.event_log")), (6, 6));
    assert_sound(&mut s);
}

#[test]
fn the_engine_goes_on_after_a_restart_with_what_was_not_sealed() {
    let mut cluster = engine_cluster("events-restart", &[]);
    let name = {
        let db = agentq_tests::engine::running(cluster.database());
        let mut s = db.session();
        emit(&mut s, "first", "x");
        eventually("it has its place", || s.count("agentq.event_log") == 1);
        s.call("fn_engine_chore_set('seal_events', p_enabled => false)");
        emit(&mut s, "second", "x");
        s.call("fn_engine_chore_set('seal_events', p_enabled => true)");
        let name = db.name.clone();
        std::mem::forget(db);
        name
    };
    cluster.crash_and_restart();
    let mut s = cluster.session(&name);
    // The first call in a database tells the launcher of it.
    s.call("fn_config_get('queue.worker.enabled')");
    eventually("the second has its place", || s.count("agentq.event_log") == 2);
    assert_sound(&mut s);
}

#[test]
fn a_reader_in_a_transaction_of_its_own_seals_nothing() {
    let db = database();
    let mut s = db.session();
    emit(&mut s, "a", "x");
    for begin in ["BEGIN", "BEGIN READ ONLY", "BEGIN ISOLATION LEVEL REPEATABLE READ"] {
        s.run(begin);
        assert_eq!(s.call("fn_event_read()")["code"], "empty", "{begin}");
        s.run("COMMIT");
    }
    s.run("SET default_transaction_read_only = on");
    assert_eq!(s.call("fn_event_read()")["code"], "empty");
    s.run("SET default_transaction_read_only = off");
    assert_eq!(s.call("fn_event_read()")["code"], "events");
}

/// Writers that commit and roll back, while readers follow the log.
fn torture(cluster: &Cluster, seals_itself: bool) {
    const WRITERS: usize = 4;
    const ROUNDS: usize = 60;
    let db = cluster.database();
    let (writing, kept) = (AtomicUsize::new(WRITERS), AtomicUsize::new(0));
    let seen = std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (db, writing, kept) = (&db, &writing, &kept);
            scope.spawn(move || {
                let mut s = db.session();
                for round in 0..ROUNDS {
                    s.run("BEGIN");
                    let count = 1 + (writer + round) % 7;
                    let purpose = if round % 3 == 0 { "audit" } else { "event" };
                    s.run(&format!("SELECT agentq.fn_event_emit('k', '{writer} {round}', p_options => '{{\"purpose\": \"{purpose}\"}}')
                        FROM generate_series(1, {count})"));
                    if round % 5 == writer {
                        s.run("SELECT pg_sleep(0.02)");
                    }
                    if round % 4 == 3 {
                        s.run("ROLLBACK");
                    } else {
                        s.run("COMMIT");
                        kept.fetch_add(count, Ordering::SeqCst);
                    }
                }
                writing.fetch_sub(1, Ordering::SeqCst);
            });
        }
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let (db, writing, kept) = (&db, &writing, &kept);
                scope.spawn(move || {
                    let (mut s, mut after, mut ids) = (db.session(), 0_i64, Vec::new());
                    let deadline = std::time::Instant::now() + PATIENCE;
                    loop {
                        let done = writing.load(Ordering::SeqCst) == 0;
                        let read = s.call(&format!("fn_event_read({after}, 50, interval '0.2 s')"));
                        ids.extend(each(&read, "event_id"));
                        after = read["next_after"].as_i64().expect("a place");
                        if done && ids.len() >= kept.load(Ordering::SeqCst) || std::time::Instant::now() > deadline {
                            return ids;
                        }
                    }
                })
            })
            .collect();
        readers.into_iter().map(|reader| reader.join().expect("a reader")).collect::<Vec<_>>()
    });
    let kept = kept.load(Ordering::SeqCst);
    for ids in &seen {
        assert_eq!(ids.len(), kept, "every committed event, once (sealed by readers: {seals_itself})");
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), kept, "none twice");
        assert_eq!(ids, &seen[0], "in one order");
    }
    let mut s = db.session();
    assert_eq!(s.count("agentq.event_log"), kept as i64);
    assert_sound(&mut s);
    db.assert_sound();
}

#[test]
fn every_reader_sees_every_committed_event_once_in_one_order_while_readers_seal() {
    torture(agentq_tests::shared_cluster(), true);
}

#[test]
fn every_reader_sees_every_committed_event_once_in_one_order_while_the_engine_seals() {
    torture(&engine_cluster("feed-torture", &[]), false);
}

#[test]
fn a_crash_loses_no_place_and_gives_none_twice() {
    let mut cluster = Cluster::start("events-crash", &Options::default());
    cluster.make_template();
    let name = {
        let db = cluster.database();
        let mut s = db.session();
        s.run("SELECT agentq.fn_event_emit('a', n::text) FROM generate_series(1, 3000) n");
        // Half of it is sealed, and the rest is on its way.
        expect(&mut s, "events", "fn_event_read()");
        let mut open = db.session();
        open.run("BEGIN");
        emit(&mut open, "never", "x");
        let name = db.name.clone();
        std::mem::forget(db);
        std::mem::forget(open);
        name
    };
    cluster.crash_and_restart();
    let mut s = cluster.session(&name);
    assert!(s.count("agentq.event_log") < 3000);
    seal(&mut s);
    assert_eq!((s.count("agentq.event_log"), s.count("agentq.event")), (3000, 3000));
    assert_sound(&mut s);
}

#[test]
fn without_the_preload_readers_seal_all_the_same() {
    let cluster = Cluster::start("events-plain", &Options { without_preload: true, ..Options::default() });
    cluster.make_template();
    let db = cluster.database();
    let mut s = db.session();
    emit(&mut s, "a", "x");
    assert_eq!(each(&s.call("fn_event_read(0, 10, interval '60 s')"), "event_kind"), ["a"]);
    s.call("fn_engine_tick('keep_partitions')");
    assert!(s.count("agentq.v_event_partition WHERE lower IS NOT NULL") > 5);
    assert_sound(&mut s);
}

/// Events that were there before the first turn get their places in one go, whoever writes meanwhile. Which of them were there is
/// told by the number of the last transaction, and 999 is less than 1000.
#[test]
fn events_that_are_adopted_are_known_by_the_number_of_their_transaction() {
    let cluster = Cluster::start("adopted", &Options::default());
    cluster.make_template();
    let db = cluster.database();
    let mut s = db.session();
    let xid =
        |s: &mut Session| s.text("SELECT pg_snapshot_xmax(pg_current_snapshot())").parse::<u64>().expect("a number");
    let border = 10_u64.pow(xid(&mut s).ilog10() + 1);
    let burn = border - xid(&mut s) - 5;
    s.run(&format!("DO $$ BEGIN FOR i IN 1..{burn} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"));
    while xid(&mut s) < border + 5 {
        s.call("fn_event_emit('k', 'x')");
    }
    let sides = s.texts("SELECT DISTINCT length(xid::text)::text FROM agentq.event ORDER BY 1");
    assert_eq!(sides.len(), 2, "events on both sides of {border}: {sides:?}");
    s.call("fn_engine_tick('seal_events')");
    assert_eq!(
        s.text("SELECT foreign_to FROM agentq_internal.event_seal"),
        s.text("SELECT e.xid FROM agentq.event e ORDER BY e.xid DESC LIMIT 1")
    );
}
