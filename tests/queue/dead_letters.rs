//! Jobs given up, their triage, and the removal of what is finished.

use agentq_tests::{Session, claimed, database, enqueue_all, everything, expect, id, json, refused, text};

#[track_caller]
fn bury(s: &mut Session, job: &str) -> String {
    let answer = expect(s, "dead_letter", &format!("fn_job_move_to_dead_letter('{job}', 'hopeless')"));
    assert_eq!((answer["job_id"].clone(), answer["state"].clone()), (json!(job), json!("dead_letter")));
    text(&answer, "dead_letter_id")
}

#[test]
fn a_job_can_be_given_up_wherever_it_stands() {
    let db = database();
    let mut s = db.session();
    let queued = s.enqueue("x");
    bury(&mut s, &queued);
    let later = id(&s.call("fn_job_enqueue('x', p_scheduled_at => agentq.fn_clock_now() + '1 h')"));
    bury(&mut s, &later);
    let waiting = s.enqueue("x");
    claimed(&mut s, "bob");
    s.call(&format!("fn_job_fail_or_retry('{waiting}', 'bob', 'boom')"));
    bury(&mut s, &waiting);
    let leased = s.enqueue("x");
    claimed(&mut s, "bob");
    bury(&mut s, &leased);
    expect(&mut s, "lease_lost", &format!("fn_job_ack('{leased}', 'bob')"));
    let started = s.enqueue("x");
    claimed(&mut s, "bob");
    s.call(&format!("fn_job_start('{started}', 'bob')"));
    bury(&mut s, &started);
    expect(&mut s, "lease_lost", &format!("fn_job_fail_or_retry('{started}', 'bob', 'boom')"));

    for job in [queued, later, waiting, leased, started] {
        assert_eq!(s.state(&job), "dead_letter");
    }
    assert_eq!(s.count("agentq.job_dead_letter WHERE final_error = 'hopeless'"), 5);
    s.shift_clock(100_000);
    assert_eq!(s.claim("bob")["code"], "empty");
    db.assert_sound();
}

#[test]
fn a_dead_letter_says_who_moved_it() {
    let db = database();
    let mut s = db.session();
    let mut operator = db.session_of("agentq_mover_test");
    s.call("fn_access_grant('agentq_mover_test', 'operator')");
    let jobs = enqueue_all(&mut s, &["x", "x"], "");
    operator.call(&format!("fn_job_move_to_dead_letter('{}', 'hopeless')", jobs[0]));
    operator.call(&format!("fn_job_move_to_dead_letter('{}', 'hopeless', 'ann')", jobs[1]));
    let by = "SELECT moved_by FROM agentq.job_dead_letter ORDER BY moved_at";
    assert_eq!(s.texts(by), ["agentq_mover_test", "ann"]);
}

#[test]
fn a_finished_job_cannot_be_given_up() {
    let db = database();
    let mut s = db.session();
    let jobs = enqueue_all(&mut s, &["a", "b", "c"], "");
    claimed(&mut s, "bob");
    s.call(&format!("fn_job_ack('{}', 'bob')", jobs[0]));
    s.call(&format!("fn_job_cancel('{}')", jobs[1]));
    bury(&mut s, &jobs[2]);
    let before = everything(&mut s);
    for (job, state) in jobs.iter().zip(["succeeded", "cancelled", "dead_letter"]) {
        let call = format!("fn_job_move_to_dead_letter('{job}', 'again')");
        assert_eq!(expect(&mut s, "already_finished", &call)["state"], json!(state));
    }
    assert_eq!(everything(&mut s), before);
}

#[test]
fn a_triage_is_recorded_with_who_and_when() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    let letter = bury(&mut s, &job);
    let answer = expect(
        &mut s,
        "triaged",
        &format!("fn_dead_letter_triage('{letter}', 'acknowledged', 'the mail server was down', 'ann')"),
    );
    for (field, value) in [
        ("dead_letter_id", json!(letter)),
        ("job_id", json!(job)),
        ("triage_status", json!("acknowledged")),
        ("triage_note", json!("the mail server was down")),
        ("triaged_by", json!("ann")),
    ] {
        assert_eq!(answer[field], value, "{field} in {answer}");
    }
    for status in ["pending", "manual_replay", "escalated", "closed"] {
        expect(&mut s, "triaged", &format!("fn_dead_letter_triage('{letter}', '{status}')"));
        let row = s.text(
            "SELECT concat_ws('|', triage_status, triage_note, triaged_by, triaged_at >= moved_at)
             FROM agentq.job_dead_letter",
        );
        // The note stays until there is a new one; who did it is always told.
        assert_eq!(row, format!("{status}|the mail server was down|postgres|t"));
    }
}

#[test]
fn a_triage_of_nothing_or_with_an_unknown_status_is_refused() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    let letter = bury(&mut s, &job);
    refused(
        &mut s,
        &format!("SELECT agentq.fn_dead_letter_triage('{letter}', 'done')"),
        "22023",
        "triage status \"done\" is not known",
        "pending, acknowledged, manual_replay, escalated, closed",
    );
    refused(
        &mut s,
        &format!("SELECT agentq.fn_dead_letter_triage('{job}', 'closed')"),
        "P0002",
        &format!("there is no dead letter {job}"),
        "agentq.job_dead_letter",
    );
}

#[test]
fn a_dead_letter_outlives_its_job() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    let letter = bury(&mut s, &job);
    s.shift_clock(86_400);
    let answer = expect(&mut s, "purged", "fn_job_purge('1 hour')");
    assert_eq!((answer["purged"].clone(), answer["more"].clone()), (json!(1), json!(false)));
    assert_eq!(s.count("agentq.job_queue"), 0);
    assert_eq!(s.count(&format!("agentq.job_dead_letter WHERE job_id = '{job}'")), 1);
    expect(&mut s, "triaged", &format!("fn_dead_letter_triage('{letter}', 'closed')"));
    db.assert_sound();
}

#[test]
fn a_purge_takes_only_what_finished_long_enough_ago() {
    let db = database();
    let mut s = db.session();
    let old = enqueue_all(&mut s, &["succeeded", "cancelled", "dead"], "");
    claimed(&mut s, "bob");
    s.call(&format!("fn_job_heartbeat('{}', 'bob', NULL, '{{\"page\": 1}}')", old[0]));
    s.call(&format!("fn_job_ack('{}', 'bob')", old[0]));
    s.call(&format!("fn_job_cancel('{}')", old[1]));
    bury(&mut s, &old[2]);
    // None of these has finished, however old it is.
    enqueue_all(&mut s, &["leased", "retried", "queued"], "");
    claimed(&mut s, "bob");
    let retried = id(&claimed(&mut s, "bob"));
    s.call(&format!("fn_job_fail_or_retry('{retried}', 'bob', 'boom')"));
    s.call("fn_job_enqueue('scheduled', p_scheduled_at => agentq.fn_clock_now() + '30 days')");

    s.shift_clock(7200);
    let young = s.enqueue("young");
    s.call(&format!("fn_job_cancel('{young}')"));
    assert_eq!(s.call("fn_job_purge('3 hours')")["purged"], json!(0));
    assert_eq!(s.call("fn_job_purge('1 hour')")["purged"], json!(3));
    let left = "SELECT job_kind FROM agentq.job_queue ORDER BY job_kind";
    assert_eq!(s.texts(left), ["leased", "queued", "retried", "scheduled", "young"]);
    // What belonged to them has gone with them.
    assert_eq!(s.count("agentq_internal.job_checkpoint"), 0);
    assert_eq!(s.count("agentq.job_attempt"), 2);
    let failure = s.fails(&format!("SELECT agentq.fn_job_get('{}')", old[0]));
    assert_eq!(failure.code, "P0002");
    db.assert_sound();
}

#[test]
fn a_purge_stops_at_its_limit_and_says_that_there_is_more() {
    let db = database();
    let mut s = db.session();
    for job in enqueue_all(&mut s, &["x"; 25], "") {
        s.call(&format!("fn_job_cancel('{job}')"));
    }
    s.shift_clock(60);
    for (purged, more) in [(10, true), (10, true), (5, false), (0, false)] {
        let answer = expect(&mut s, "purged", "fn_job_purge('0 s', 10)");
        assert_eq!((answer["purged"].clone(), answer["more"].clone()), (json!(purged), json!(more)));
    }
    assert_eq!(s.count("agentq_internal.job"), 0);
    db.assert_sound();
}

#[test]
fn a_purge_of_a_negative_age_or_a_silly_limit_is_refused() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    s.call(&format!("fn_job_cancel('{job}')"));
    for (call, message, hint) in [
        ("fn_job_purge('-1 day')", "must not be negative, but is -1 day", "fn_job_purge('7 days')"),
        ("fn_job_purge('0', 0)", "but 0 were asked for", "several calls"),
        ("fn_job_purge('0', 1000001)", "but 1000001 were asked for", "several calls"),
    ] {
        refused(&mut s, &format!("SELECT agentq.{call}"), "22023", message, hint);
    }
}

#[test]
fn a_purge_without_an_age_takes_what_has_just_finished() {
    let db = database();
    let mut s = db.session();
    // Finished in another order than made.
    for job in enqueue_all(&mut s, &["a", "b", "c"], "").iter().rev() {
        s.call(&format!("fn_job_cancel('{job}')"));
    }
    s.enqueue("unfinished");
    assert_eq!(expect(&mut s, "purged", "fn_job_purge('0 s')")["purged"], json!(3));
    assert_eq!(s.texts("SELECT job_kind FROM agentq.job_queue"), ["unfinished"]);
    db.assert_sound();
}

#[test]
fn two_purges_at_the_same_time_share_the_work() {
    let db = database();
    let (mut first, mut second) = (db.session(), db.session());
    for job in enqueue_all(&mut first, &["x"; 10], "") {
        first.call(&format!("fn_job_cancel('{job}')"));
    }
    first.shift_clock(60);
    second.shift_clock(60);
    first.run("BEGIN");
    assert_eq!(first.call("fn_job_purge('0', 4)")["purged"], json!(4));
    assert_eq!(second.call("fn_job_purge('0', 100)")["purged"], json!(6));
    first.run("COMMIT");
    assert_eq!(first.count("agentq_internal.job"), 0);
    db.assert_sound();
}
