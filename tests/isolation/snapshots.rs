//! What a transaction with an old snapshot does and does not do: the cases behind the pairs, one by one.

use agentq_tests::{Session, Value, database, id, until_someone_waits};

/// Opens a transaction and takes its snapshot.
fn look(session: &mut Session, level: &str) {
    session.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM agentq_internal.job"));
}

#[test]
fn a_server_error_inside_a_call_is_told_in_our_words() {
    let db = database();
    let (mut old, mut other) = (db.session(), db.session());
    let job = other.enqueue("x");
    look(&mut old, "REPEATABLE READ");
    other.call(&format!("fn_job_cancel('{job}')"));
    let failure = old.fails(&format!("SELECT agentq.fn_job_cancel('{job}')"));
    assert_eq!(failure.code, "40001", "{failure:?}");
    assert_eq!(failure.message, "another session has changed what this transaction has seen");
    assert!(failure.detail.contains("could not serialize access"), "{failure:?}");
    assert!(failure.hint.starts_with("Run the transaction again: a single call, just once more."), "{failure:?}");
    old.run("ROLLBACK");
    assert_eq!(old.call(&format!("fn_job_cancel('{job}')"))["code"], "already_finished");
}

#[test]
fn a_single_call_with_an_old_snapshot_waits_is_told_and_succeeds_when_called_again() {
    let db = database();
    let (mut holder, mut boss, mut look) = (db.session(), db.session(), db.session());
    let job = holder.enqueue("x");
    holder.claim("w");
    holder.run("BEGIN");
    holder.call(&format!("fn_job_heartbeat('{job}', 'w')"));
    boss.run("SET default_transaction_isolation = 'repeatable read'");
    let cancel = format!("SELECT agentq.fn_job_cancel('{job}')");
    let waiting = std::thread::spawn({
        let cancel = cancel.clone();
        move || (boss.fails(&cancel), boss)
    });
    until_someone_waits(&mut look);
    holder.run("COMMIT");
    let (failure, mut boss) = waiting.join().expect("it has failed");
    assert_eq!(failure.code, "40001", "{failure:?}");
    assert!(failure.hint.contains("a single call, just once more"), "{failure:?}");
    assert_eq!(boss.json(&cancel, &[])["code"], "cancel_requested");
}

#[test]
fn a_claim_with_an_old_snapshot_passes_over_due_and_expired_jobs_that_have_changed_and_takes_others() {
    let db = database();
    let (mut old, mut other) = (db.session(), db.session());
    other.shift_clock(-3600);
    let due = id(&other.call("fn_job_enqueue('due', p_scheduled_at => agentq.fn_clock_now() + interval '1 minute')"));
    let held = other.enqueue("held");
    other.call("fn_job_claim('w', 'held', 60)");
    other.shift_clock(0);
    // Looks at every lease, whatever others have seen of them.
    old.shift_clock(1);
    let ready = other.enqueue("ready");
    look(&mut old, "REPEATABLE READ");
    other.call(&format!("fn_job_cancel('{due}')"));
    other.call(&format!("fn_job_heartbeat('{held}', 'w', 3600)"));
    let claim = old.call("fn_job_claim('bob')");
    assert_eq!((claim["code"].as_str(), id(&claim)), (Some("claimed"), ready));
    assert_eq!(old.claim("bob")["code"], "empty");
    for chore in ["reap_leases", "promote_due", "enforce_deadlines"] {
        let tick = old.call(&format!("fn_engine_tick('{chore}')"));
        assert_eq!((&tick["ok"], &tick["chores"][0]["rows"]), (&Value::Bool(true), &Value::from(0)), "{tick}");
    }
    old.run("COMMIT");
    db.assert_sound();
}

/// A job, held by `w`, at the head of its ordering key; and one that is put behind it after the other's snapshot.
fn one_behind_another(old: &mut Session, other: &mut Session, options: &str) -> (String, String) {
    let enqueue = |more: &str| format!("fn_job_enqueue('x', p_options => '{{\"ordering_key\": \"k\"}}' {more})");
    let head = id(&other.call(&enqueue("")));
    other.claim("w");
    look(old, "REPEATABLE READ");
    (head, id(&other.call(&enqueue(options))))
}

#[test]
fn a_job_that_the_snapshot_does_not_show_is_made_ready_by_an_ack_and_left_for_others_by_its_claim() {
    let db = database();
    let (mut old, mut other) = (db.session(), db.session());
    let seen = other.enqueue("y");
    other.run(&format!("SELECT agentq.fn_job_change('{seen}', '{{\"priority\": 200}}')"));
    let (head, behind) = one_behind_another(&mut old, &mut other, "");
    let both = old.call(&format!("fn_job_ack_and_claim('{head}', 'w')"));
    assert_eq!((both["ack"]["code"].as_str(), id(&both["job"])), (Some("succeeded"), seen), "{both}");
    assert_eq!(old.claim("w")["code"], "empty");
    old.run("COMMIT");
    db.assert_sound();
    assert_eq!(id(&other.claim("bob")), behind);
}

#[test]
fn a_job_that_the_snapshot_does_not_show_waits_for_its_time_and_is_not_lost_when_that_has_come() {
    let db = database();
    let (mut old, mut other) = (db.session(), db.session());
    let later = ", p_scheduled_at => agentq.fn_clock_now() + interval '1 minute'";
    let (head, behind) = one_behind_another(&mut old, &mut other, later);
    assert_eq!(old.call(&format!("fn_job_ack('{head}', 'w')"))["code"], "succeeded");
    old.shift_clock(120);
    assert_eq!(old.call("fn_engine_tick('promote_due')")["chores"][0]["rows"], 0);
    assert_eq!(old.claim("w")["code"], "empty");
    old.run("COMMIT");
    db.assert_sound();
    assert_eq!(id(&old.claim("bob")), behind);
}

#[test]
fn a_late_job_given_up_by_a_claim_with_an_old_snapshot_does_not_take_the_next_of_its_key_with_it() {
    let db = database();
    let (mut old, mut other) = (db.session(), db.session());
    other.shift_clock(-60);
    let options = "jsonb_build_object('ordering_key', 'k', 'start_by', agentq.fn_clock_now() + interval '1 second')";
    let late = id(&other.call(&format!("fn_job_enqueue('x', p_options => {options})")));
    other.shift_clock(0);
    look(&mut old, "REPEATABLE READ");
    let behind = id(&other.call("fn_job_enqueue('x', p_options => '{\"ordering_key\": \"k\"}')"));
    assert_eq!(old.claim("w")["code"], "empty");
    old.run("COMMIT");
    db.assert_sound();
    assert_eq!(other.state(&late), "dead_letter");
    assert_eq!(id(&other.claim("bob")), behind);
}

#[test]
fn an_error_in_the_middle_of_a_claim_leaves_nothing_behind_in_its_session() {
    let db = database();
    let (mut one, mut two) = (db.session(), db.session());
    one.enqueue("x");
    two.enqueue("x");
    look(&mut one, "SERIALIZABLE");
    look(&mut two, "SERIALIZABLE");
    let job = id(&two.claim("two"));
    two.call(&format!("fn_job_heartbeat('{job}', 'two')"));
    two.call(&format!("fn_job_ack('{job}', 'two')"));
    two.run("COMMIT");
    assert_eq!(one.fails("SELECT agentq.fn_job_claim('one')").code, "40001");
    one.run("ROLLBACK");
    // What it ends is told of as before: the mission hears that its step is done.
    let mission = one.call(r#"fn_mission_start('{"steps": [{"name": "only", "kind": "step"}]}')"#);
    let step = id(&one.call("fn_job_claim('one', 'step')"));
    assert_eq!(one.call(&format!("fn_job_ack('{step}', 'one')"))["code"], "succeeded");
    let mission = mission["mission_id"].as_str().expect("a mission");
    assert_eq!(one.text(&format!("SELECT status FROM agentq.mission WHERE mission_id = '{mission}'")), "succeeded");
}
