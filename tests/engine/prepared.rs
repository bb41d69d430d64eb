//! COMMIT PREPARED and ROLLBACK PREPARED, said by a session that had no part in the transaction.

use crate::waiting::{CLAIM, is_told, waiting};
use agentq_tests::engine::{database, engine_cluster, running};
use agentq_tests::{Database, Session, eventually, expect, id, json, sooner_than, text, timed, until_waiting};
use std::time::Duration;

/// Runs these calls in a transaction and prepares it, under a name that the answer has.
fn prepare(db: &Database<'_>, s: &mut Session, calls: &[&str]) -> String {
    s.run("BEGIN");
    for call in calls {
        s.call(call);
    }
    let name = format!("{} {}", db.name, s.text("SELECT pg_current_xact_id()"));
    s.run(&format!("PREPARE TRANSACTION '{name}'"));
    name
}

fn commit(s: &mut Session, name: &str) {
    s.run(&format!("COMMIT PREPARED '{name}'"));
}

/// The job of that kind, as nobody has claimed it yet.
fn job_of(s: &mut Session, kind: &str) -> String {
    s.text(&format!("SELECT job_id FROM agentq.job_queue WHERE job_kind = '{kind}' AND state = 'queued'"))
}

#[test]
fn a_waiting_claim_is_told_of_a_prepared_job_when_that_is_committed() {
    let db = database();
    let (mut producer, mut other) = (db.session(), db.session());
    is_told(&db, || {
        let name = prepare(&db, &mut producer, &["fn_job_enqueue('x')"]);
        let claim = waiting(&db, CLAIM);
        std::thread::sleep(Duration::from_millis(300));
        assert!(!claim.is_finished(), "it is not committed yet");
        commit(&mut other, &name);
        let job = other.text("SELECT job_id FROM agentq.job_queue WHERE finished_at IS NULL");
        (claim, job)
    });
    db.assert_sound();
}

#[test]
fn a_waiting_claim_is_told_when_a_prepared_claim_is_rolled_back() {
    let db = database();
    let (mut holder, mut other) = (db.session(), db.session());
    is_told(&db, || {
        let job = other.enqueue("x");
        let name = prepare(&db, &mut holder, &["fn_job_claim('holder', 'x')"]);
        let claim = waiting(&db, CLAIM);
        other.run(&format!("ROLLBACK PREPARED '{name}'"));
        (claim, job)
    });
    db.assert_sound();
}

#[test]
fn who_waits_for_the_end_of_a_job_is_told_of_a_prepared_ack() {
    let db = database();
    let (mut holder, mut other) = (db.session(), db.session());
    sooner_than(Duration::from_secs(4), "it is told, and does not look by itself", || {
        let job = holder.enqueue("x");
        holder.call("fn_job_claim('holder', 'x')");
        let name = prepare(&db, &mut holder, &[&format!("fn_job_ack('{job}', 'holder')")]);
        let mut s = db.session();
        let waits = std::thread::spawn(move || timed(|| s.call(&format!("fn_job_wait('{job}', '60 s')"))));
        until_waiting(&mut other);
        commit(&mut other, &name);
        let (answer, took) = waits.join().expect("it ends");
        assert_eq!(answer["code"], "succeeded", "{answer}");
        took
    });
}

#[test]
fn events_of_a_prepared_transaction_are_sealed_when_that_is_committed() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    // Nobody looks by himself while this test runs.
    s.call("fn_engine_chore_set('seal_events', p_every_seconds => 3600)");
    expect(&mut s, "emitted", "fn_event_emit('first', 'x')");
    eventually("it has its place", || s.count("agentq.event_log") == 1);
    let name = prepare(&db, &mut s, &["fn_event_emit('prepared', 'x')"]);
    commit(&mut other, &name);
    eventually("it has its place", || s.count("agentq.event_log") == 2);
    assert_eq!(s.call("fn_event_verify()")["code"], "sound");
}

#[test]
fn a_prepared_signal_ends_a_step_without_a_worker_when_it_is_committed() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    s.call("fn_engine_chore_set('end_waits', p_every_seconds => 3600)");
    let mission = text(&s.call(r#"fn_mission_start('{"steps": [{"name": "a", "signal": "go"}]}')"#), "mission_id");
    let state = format!("SELECT status FROM agentq.v_mission WHERE mission_id = '{mission}'");
    let step = format!("SELECT status FROM agentq.v_mission_step WHERE mission_id = '{mission}'");
    eventually("the step waits", || s.text(&step) == "running");
    let name = prepare(&db, &mut s, &["fn_signal_send('go')"]);
    commit(&mut other, &name);
    eventually("it has ended", || s.text(&state) == "succeeded");
}

#[test]
fn what_was_prepared_before_a_crash_wakes_others_after_it() {
    let mut cluster = engine_cluster("prepared-crash", &["max_prepared_transactions = 10"]);
    let (database, name) = {
        let db = running(cluster.database());
        let mut s = db.session();
        let name = prepare(&db, &mut s, &["fn_job_enqueue('x')", "fn_event_emit('prepared', 'x')"]);
        let database = db.name.clone();
        std::mem::forget(db);
        (database, name)
    };
    cluster.crash_and_restart();
    let db = running(Database { cluster: &cluster, name: database });
    let mut s = db.session();
    s.call("fn_engine_chore_set('seal_events', p_every_seconds => 3600)");
    let claim = waiting(&db, CLAIM);
    std::thread::sleep(Duration::from_millis(300));
    assert!(!claim.is_finished(), "it is not committed yet");
    let ((answer, _), took) = timed(|| {
        commit(&mut s, &name);
        claim.join().expect("the claim ends")
    });
    println!("the claim had its job {took:?} after COMMIT PREPARED");
    assert_eq!(answer["code"], "claimed", "{answer}");
    eventually("the event has its place", || s.count("agentq.event_log") == 1);
    db.assert_sound();
}

#[test]
fn commands_about_other_prepared_transactions_end_as_ever() {
    let db = database();
    let mut s = db.session();
    assert_eq!(s.fails("COMMIT PREPARED 'nobody knows this'").code, "42704");
    s.run("CREATE TABLE mine (n int)");
    s.run(&format!("BEGIN; INSERT INTO mine VALUES (1); PREPARE TRANSACTION '{} mine'", db.name));
    s.run(&format!("COMMIT PREPARED '{} mine'", db.name));
    // One that has called agentq holds a lock, and lets it go.
    let locks = "pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let name = prepare(&db, &mut s, &["fn_job_enqueue('x')"]);
    assert_eq!(s.count(locks), 1);
    commit(&mut s, &name);
    assert_eq!((s.count(locks), s.count("mine")), (0, 1));
    let job = job_of(&mut s, "x");
    assert_eq!(id(&s.call("fn_job_claim('w', 'x')")), job);
    assert_eq!(s.call("fn_job_claim('w', 'x')")["code"], json!("empty"));
}
