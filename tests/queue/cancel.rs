//! Cancelling jobs that nobody holds, and asking the holder of one to stop.

use agentq_tests::{Session, attempts, claimed, database, everything, expect, id, json, until_someone_waits};

/// A job held by `bob` whose cancel has been requested.
fn doomed(s: &mut Session) -> String {
    let job = s.enqueue("x");
    assert_eq!(id(&claimed(s, "bob")), job);
    expect(s, "cancel_requested", &format!("fn_job_cancel('{job}', 'not needed')"));
    job
}

#[test]
fn a_job_that_nobody_holds_is_cancelled_at_once() {
    let db = database();
    let mut s = db.session();
    let queued = s.enqueue("x");
    let later = id(&s.call("fn_job_enqueue('x', p_scheduled_at => agentq.fn_clock_now() + '1 h')"));
    let retried = id(&s.call("fn_job_enqueue('y')"));
    s.call("fn_job_claim('bob', 'y')");
    s.call(&format!("fn_job_fail_or_retry('{retried}', 'bob', 'boom')"));
    for job in [&queued, &later, &retried] {
        let answer = expect(&mut s, "cancelled", &format!("fn_job_cancel('{job}', 'not needed')"));
        assert_eq!((answer["job_id"].clone(), answer["state"].clone()), (json!(job), json!("cancelled")));
        let found = &s.call(&format!("fn_job_get('{job}')"))["job"];
        assert_eq!((found["state"].clone(), found["cancel_reason"].clone()), (json!("cancelled"), json!("not needed")));
        assert!(found["finished_at"].is_string());
    }
    s.shift_clock(100_000);
    assert_eq!(s.claim("bob")["code"], "empty");
    db.assert_sound();
}

#[test]
fn the_holder_of_a_cancelled_job_learns_of_it_at_its_next_heartbeat() {
    let db = database();
    let (mut holder, mut operator) = (db.session(), db.session());
    let job = holder.enqueue("x");
    claimed(&mut holder, "bob");
    let answer = expect(&mut operator, "cancel_requested", &format!("fn_job_cancel('{job}', 'not needed')"));
    assert_eq!(answer["job_id"], json!(job));
    // It still holds it.
    assert_eq!(operator.state(&job), "leased");
    let answer = expect(&mut holder, "extended", &format!("fn_job_heartbeat('{job}', 'bob')"));
    assert_eq!(answer["cancel_requested"], json!(true));
    assert_eq!(answer["cancel_reason"], "not needed");
    let found = &operator.call(&format!("fn_job_get('{job}')"))["job"];
    assert_eq!(found["cancel_requested"], json!(true));
    assert_eq!(found["cancel_reason"], "not needed");
}

#[test]
fn the_answer_to_a_request_shows_the_state_in_which_the_job_is_held() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    claimed(&mut s, "bob");
    let cancel = format!("fn_job_cancel('{job}')");
    assert_eq!(expect(&mut s, "cancel_requested", &cancel)["state"], "leased");
    s.call(&format!("fn_job_start('{job}', 'bob')"));
    assert_eq!(expect(&mut s, "cancel_requested", &cancel)["state"], "in_progress");
}

#[test]
fn a_request_made_twice_keeps_its_first_reason() {
    let db = database();
    let mut s = db.session();
    let job = doomed(&mut s);
    expect(&mut s, "cancel_requested", &format!("fn_job_cancel('{job}', 'other reason')"));
    expect(&mut s, "cancel_requested", &format!("fn_job_cancel('{job}')"));
    let answer = s.call(&format!("fn_job_heartbeat('{job}', 'bob')"));
    assert_eq!(answer["cancel_reason"], "not needed");
}

#[test]
fn a_requested_cancel_ends_the_job_when_its_holder_lets_go() {
    let db = database();
    let mut s = db.session();
    for (call, outcome) in [
        ("fn_job_fail_or_retry('$job', 'bob', 'stopped')", "failed"),
        ("fn_job_release('$job', 'bob')", "cancelled"),
        ("fn_job_snooze('$job', 'bob', agentq.fn_clock_now() + '1 hour')", "cancelled"),
    ] {
        let job = doomed(&mut s);
        let answer = expect(&mut s, "cancelled", &call.replace("$job", &job));
        assert_eq!((answer["job_id"].clone(), answer["state"].clone()), (json!(job), json!("cancelled")));
        assert_eq!(s.state(&job), "cancelled");
        let ended = format!("SELECT outcome FROM agentq.job_attempt WHERE job_id = '{job}'");
        assert_eq!(s.text(&ended), outcome, "{call}");
    }
    s.shift_clock(100_000);
    assert_eq!(s.claim("bob")["code"], "empty");
    assert_eq!(s.count("agentq.job_dead_letter"), 0);
    db.assert_sound();
}

#[test]
fn the_reason_of_a_cancel_is_kept_however_the_job_ends() {
    let db = database();
    let mut s = db.session();
    for call in [
        "fn_job_release('$job', 'bob')",
        "fn_job_snooze('$job', 'bob', agentq.fn_clock_now() + '1 hour')",
        "fn_job_fail_or_retry('$job', 'bob', 'stopped')",
    ] {
        let job = doomed(&mut s);
        expect(&mut s, "cancelled", &call.replace("$job", &job));
        let found = s.call(&format!("fn_job_get('{job}')"));
        assert_eq!(found["job"]["cancel_reason"], "not needed", "{call}");
    }
}

#[test]
fn a_requested_cancel_ends_the_job_when_its_lease_expires() {
    let db = database();
    let mut s = db.session();
    let job = doomed(&mut s);
    s.shift_clock(1000);
    assert_eq!(s.claim("cat")["code"], "empty");
    assert_eq!(s.state(&job), "cancelled");
    let rows = attempts(&mut s, &job);
    assert!(rows.len() == 1 && rows[0].starts_with("1 bob lease_expired"), "{rows:?}");
    assert_eq!(s.count("agentq.job_dead_letter"), 0);
    assert_eq!(s.call(&format!("fn_job_get('{job}')"))["job"]["cancel_reason"], "not needed");
    expect(&mut s, "lease_lost", &format!("fn_job_ack('{job}', 'bob')"));
    db.assert_sound();
}

#[test]
fn an_ack_wins_over_a_requested_cancel() {
    let db = database();
    let mut s = db.session();
    let job = doomed(&mut s);
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    assert_eq!(s.state(&job), "succeeded");
    assert_eq!(attempts(&mut s, &job), ["1 bob succeeded"]);
}

#[test]
fn a_finished_job_cannot_be_cancelled() {
    let db = database();
    let mut s = db.session();
    let succeeded = s.enqueue("x");
    claimed(&mut s, "bob");
    s.call(&format!("fn_job_ack('{succeeded}', 'bob')"));
    let cancelled = s.enqueue("x");
    s.call(&format!("fn_job_cancel('{cancelled}', 'first')"));
    let dead = s.enqueue("x");
    s.call(&format!("fn_job_move_to_dead_letter('{dead}', 'hopeless')"));
    let before = everything(&mut s);
    for (job, state) in [(succeeded, "succeeded"), (cancelled, "cancelled"), (dead, "dead_letter")] {
        let answer = expect(&mut s, "already_finished", &format!("fn_job_cancel('{job}', 'second')"));
        assert_eq!((answer["job_id"].clone(), answer["state"].clone()), (json!(job), json!(state)));
    }
    assert_eq!(everything(&mut s), before);
}

#[test]
fn a_cancel_that_waited_for_a_claim_finds_its_holder() {
    let db = database();
    let mut holder = db.session();
    let job = holder.enqueue("x");
    holder.run("BEGIN");
    claimed(&mut holder, "bob");
    let answer = std::thread::scope(|scope| {
        let cancel = scope.spawn(|| db.session().call(&format!("fn_job_cancel('{job}')")));
        until_someone_waits(&mut db.session());
        holder.run("COMMIT");
        cancel.join().expect("it answers")
    });
    assert_eq!(answer["code"], "cancel_requested", "{answer}");
    let heartbeat = holder.call(&format!("fn_job_heartbeat('{job}', 'bob')"));
    assert_eq!(heartbeat["cancel_requested"], json!(true));
    db.assert_sound();
}

#[test]
fn a_cancel_that_waited_for_a_claim_that_rolled_back_cancels_at_once() {
    let db = database();
    let mut holder = db.session();
    let job = holder.enqueue("x");
    holder.run("BEGIN");
    claimed(&mut holder, "bob");
    let answer = std::thread::scope(|scope| {
        let cancel = scope.spawn(|| db.session().call(&format!("fn_job_cancel('{job}')")));
        until_someone_waits(&mut db.session());
        holder.run("ROLLBACK");
        cancel.join().expect("it answers")
    });
    assert_eq!(answer["code"], "cancelled", "{answer}");
    db.assert_sound();
}

#[test]
fn a_cancel_that_is_rolled_back_leaves_the_job_to_be_claimed() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    let job = s.enqueue("x");
    s.run("BEGIN");
    expect(&mut s, "cancelled", &format!("fn_job_cancel('{job}')"));
    assert_eq!(other.claim("bob")["code"], "empty");
    s.run("ROLLBACK");
    assert_eq!(id(&claimed(&mut other, "bob")), job);
    db.assert_sound();
}
