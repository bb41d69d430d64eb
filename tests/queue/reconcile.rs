//! Jobs with effects outside, whose worker fell silent: nobody runs them again before someone has looked.

use agentq_tests::{Session, attempts, claimed, database, eventually, expect, id, json, refused};

/// A job whose holder has fallen silent.
#[track_caller]
fn parked(s: &mut Session, more: &str) -> String {
    let job = id(&s.call(&format!("fn_job_enqueue('pay', p_options => '{{\"external_effects\": true}}'{more})")));
    claimed(s, "bob");
    s.shift_clock(301);
    assert_eq!(s.claim("cat")["code"], "empty");
    job
}

#[test]
fn a_job_whose_outcome_is_unknown_is_parked() {
    let db = database();
    let mut s = db.session();
    let job = parked(&mut s, ", p_idempotency_key => 'k'");
    let found = s.call(&format!("fn_job_get('{job}')"));
    assert_eq!(
        (found["job"]["state"].clone(), found["job"]["parked"].clone()),
        (json!("retry_waiting"), json!("outcome_unknown"))
    );
    assert_eq!(found["job"]["scheduled_at"], "infinity");
    assert_eq!(found["attempts"][0]["error_class"], "outcome_unknown");
    assert_eq!(s.count(&format!("agentq.event WHERE event_kind = 'job.outcome_unknown' AND subject = '{job}'")), 1);
    // Never due, and its key is still in use.
    s.shift_clock(300_000_000);
    assert_eq!(s.claim("cat")["code"], "empty");
    expect(&mut s, "duplicate", "fn_job_enqueue('pay', 'k')");
    // Nothing but a reconciliation brings it back, and nobody computes with its time.
    let change = format!("SELECT agentq.fn_job_change('{job}', '{{\"scheduled_at\": \"2020-01-01\"}}')");
    refused(&mut s, &change, "55000", "is parked", "fn_job_reconcile");
    assert_eq!(s.text("SELECT next_due_at IS NULL FROM agentq.v_queue_depth WHERE queue = 'default'"), "t");
    assert_eq!(s.text("SELECT next_scheduled_at IS NULL FROM agentq.v_job_queue_backlog WHERE job_kind = 'pay'"), "t");
    // A worker that answers is not silent: its failures are tried again.
    s.shift_clock(0);
    let other = id(&s.call("fn_job_enqueue('pay', p_options => '{\"external_effects\": true}')"));
    claimed(&mut s, "bob");
    expect(&mut s, "retry_waiting", &format!("fn_job_fail_or_retry('{other}', 'bob', 'declined')"));
    db.assert_sound();
}

#[test]
fn whoever_has_looked_says_what_became_of_it() {
    let db = database();
    let mut s = db.session();
    let job = parked(&mut s, "");
    let answer = expect(&mut s, "reconciled", &format!("fn_job_reconcile('{job}', 'done', 'receipt 17', 'ann')"));
    assert_eq!(answer["state"], "succeeded");
    assert_eq!(s.state(&job), "succeeded");
    assert_eq!(s.call(&format!("fn_job_get('{job}')"))["job"]["parked"], json!(null));
    let event =
        s.json("SELECT payload FROM agentq.event WHERE event_kind = 'job.reconciled' AND subject = $1", &[&job]);
    assert_eq!(event, json!({"verdict": "done", "note": "receipt 17", "by": "ann"}));

    s.shift_clock(0);
    let job = parked(&mut s, "");
    let answer = expect(&mut s, "reconciled", &format!("fn_job_reconcile('{job}', 'retry')"));
    assert_eq!(answer["state"], "queued");
    assert_eq!(id(&claimed(&mut s, "cat")), job);
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'cat')"));
    assert_eq!(attempts(&mut s, &job).len(), 2);

    // It did not happen: another try as the policy says.
    s.shift_clock(0);
    let job = parked(&mut s, "");
    let answer = expect(&mut s, "reconciled", &format!("fn_job_reconcile('{job}', 'not_done')"));
    assert_eq!(answer["state"], "retry_waiting");
    assert_eq!(s.claim("cat")["code"], "empty");
    s.shift_clock(301 + 11);
    assert_eq!(id(&claimed(&mut s, "cat")), job);
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'cat')"));

    // Or none, if that was the last.
    s.shift_clock(0);
    let job = parked(&mut s, ", p_max_attempts => 1");
    let answer = expect(&mut s, "reconciled", &format!("fn_job_reconcile('{job}', 'not_done')"));
    assert_eq!(answer["state"], "dead_letter");
    assert_eq!(s.text("SELECT reason FROM agentq.job_dead_letter"), "exhausted");
    db.assert_sound();
}

#[test]
fn only_parked_jobs_are_reconciled_and_each_once() {
    let db = database();
    let mut s = db.session();
    let plain = s.enqueue("x");
    let answer = s.call(&format!("fn_job_reconcile('{plain}', 'done')"));
    assert_eq!(
        (answer["code"].clone(), answer["ok"].clone(), answer["state"].clone()),
        (json!("not_parked"), json!(false), json!("queued"))
    );
    expect(&mut s, "cancelled", &format!("fn_job_cancel('{plain}')"));
    let job = parked(&mut s, "");
    refused(
        &mut s,
        &format!("SELECT agentq.fn_job_reconcile('{job}', 'maybe')"),
        "22023",
        "p_verdict \"maybe\" is not known",
        "done, not_done, retry",
    );
    let sql = "SELECT agentq.fn_job_reconcile('00000000-0000-4000-8000-000000000001', 'done')";
    refused(&mut s, sql, "P0002", "there is no job", "");
    expect(&mut s, "reconciled", &format!("fn_job_reconcile('{job}', 'done')"));
    assert_eq!(s.call(&format!("fn_job_reconcile('{job}', 'retry')"))["code"], "not_parked");
    // Someone may also call it off.
    s.shift_clock(0);
    let job = parked(&mut s, "");
    expect(&mut s, "cancelled", &format!("fn_job_cancel('{job}')"));
    assert_eq!(s.call(&format!("fn_job_reconcile('{job}', 'done')"))["code"], "not_parked");
    db.assert_sound();
}

#[test]
fn a_cancel_that_was_asked_for_ends_the_job_when_its_holder_falls_silent() {
    let db = database();
    let mut s = db.session();
    let job = id(&s.call("fn_job_enqueue('pay', p_options => '{\"external_effects\": true}')"));
    claimed(&mut s, "bob");
    expect(&mut s, "cancel_requested", &format!("fn_job_cancel('{job}')"));
    s.shift_clock(301);
    assert_eq!(s.claim("cat")["code"], "empty");
    assert_eq!(s.state(&job), "cancelled");
    // Somebody may want to look all the same.
    assert_eq!(s.count("agentq.event WHERE event_kind = 'job.outcome_unknown'"), 1);
}

#[test]
fn of_two_reconciliations_that_meet_between_look_and_lock_one_counts() {
    let db = database();
    let (mut first, mut limits, mut look) = (db.session(), db.session(), db.session());
    let job = parked(&mut first, "");
    let waiting = |look: &mut Session, many: i64| {
        let waits = "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        eventually("they wait", || look.count(waits) == many);
    };
    first.run("BEGIN");
    expect(&mut first, "reconciled", &format!("fn_job_reconcile('{job}', 'retry')"));
    std::thread::scope(|scope| {
        // A change of limits waits for the first, and the second waits behind it: it has looked, and locked nothing yet.
        let limits = scope.spawn(move || {
            limits.run("BEGIN");
            limits.call("fn_limit_set('kind:other', '{\"max_concurrent\": 1}')");
            limits.run("ROLLBACK");
        });
        waiting(&mut look, 1);
        let second = scope.spawn(|| db.session().call(&format!("fn_job_reconcile('{job}', 'done')")));
        waiting(&mut look, 2);
        first.run("COMMIT");
        limits.join().expect("the change of limits ends");
        let second = second.join().expect("it answers");
        assert_eq!((&second["code"], &second["state"]), (&json!("not_parked"), &json!("queued")), "{second}");
    });
    assert_eq!(id(&claimed(&mut first, "bob")), job, "it is where it was");
    db.assert_sound();
}
