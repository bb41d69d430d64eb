//! Ack, failure and backoff, and the record of every attempt.

use agentq_tests::{Session, attempts, claimed, database, everything, expect, id, json, text};

/// A job under lease of `bob`.
fn held(s: &mut Session, more: &str) -> String {
    let job = id(&s.call(&format!("fn_job_enqueue('x' {more})")));
    assert_eq!(id(&claimed(s, "bob")), job);
    job
}

#[test]
fn an_acked_job_has_succeeded_and_keeps_its_result() {
    let db = database();
    let mut s = db.session();
    let job = held(&mut s, "");
    let answer = expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob', '{{\"sent\": 3}}')"));
    assert_eq!((answer["job_id"].clone(), answer["state"].clone()), (json!(job), json!("succeeded")));
    let row = s.text(&format!(
        "SELECT concat_ws('|', state, finished_at = '{}', lease_owner IS NULL, lease_until IS NULL,
             picked_at <= finished_at, attempts, last_error IS NULL)
         FROM agentq.job_queue WHERE job_id = '{job}'",
        text(&answer, "finished_at")
    ));
    assert_eq!(row, "succeeded|t|t|t|t|0|t");
    let found = s.call(&format!("fn_job_get('{job}')"));
    assert_eq!(found["job"]["result"], json!({"sent": 3}));
    assert_eq!(found["attempts"][0]["outcome"], "succeeded");
    assert_eq!(attempts(&mut s, &job), ["1 bob succeeded"]);
    s.shift_clock(100_000);
    assert_eq!(s.claim("bob")["code"], "empty");
    db.assert_sound();
}

#[test]
fn a_job_in_progress_can_be_acked_too() {
    let db = database();
    let mut s = db.session();
    let job = held(&mut s, "");
    s.call(&format!("fn_job_start('{job}', 'bob')"));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    assert_eq!(s.call(&format!("fn_job_get('{job}')"))["job"]["result"], json!(null));
}

#[test]
fn a_second_ack_is_told_that_the_job_is_done_and_changes_nothing() {
    let db = database();
    let mut s = db.session();
    let job = held(&mut s, "");
    s.call(&format!("fn_job_ack('{job}', 'bob', '{{\"first\": true}}')"));
    let before = everything(&mut s);
    for call in [
        format!("fn_job_ack('{job}', 'bob', '{{\"second\": true}}')"),
        format!("fn_job_fail_or_retry('{job}', 'bob', 'boom')"),
        format!("fn_job_release('{job}', 'bob')"),
        format!("fn_job_heartbeat('{job}', 'bob')"),
    ] {
        assert_eq!(expect(&mut s, "already_finished", &call)["state"], "succeeded");
    }
    assert_eq!(everything(&mut s), before);
}

#[test]
fn a_failed_job_waits_and_is_tried_again() {
    let db = database();
    let mut s = db.session();
    let job = held(&mut s, "");
    let answer =
        expect(&mut s, "retry_waiting", &format!("fn_job_fail_or_retry('{job}', 'bob', 'no answer', 'timeout')"));
    for (field, value) in [
        ("job_id", json!(job)),
        ("state", json!("retry_waiting")),
        ("attempts", json!(1)),
        ("max_attempts", json!(5)),
        ("backoff_sec", json!(10)),
    ] {
        assert_eq!(answer[field], value, "{field} in {answer}");
    }
    let row = s.text(&format!(
        "SELECT concat_ws('|', state, attempts, last_error, scheduled_at = '{}', finished_at IS NULL)
         FROM agentq.job_queue WHERE job_id = '{job}'",
        text(&answer, "scheduled_at")
    ));
    assert_eq!(row, "retry_waiting|1|no answer|t|t");
    let error_class = "SELECT error_class FROM agentq.job_attempt";
    assert_eq!(s.text(error_class), "timeout");

    assert_eq!(s.claim("bob")["code"], "empty");
    s.shift_clock(20);
    let claim = claimed(&mut s, "cat");
    assert_eq!((claim["attempts"].clone(), claim["attempt"].clone()), (json!(1), json!(2)));
    assert_eq!(attempts(&mut s, &job), ["1 bob failed no answer", "2 cat held"]);
    // Success leaves the count of failures and the last error.
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'cat')"));
    let row = format!("SELECT attempts || last_error FROM agentq.job_queue WHERE job_id = '{job}'");
    assert_eq!(s.text(&row), "1no answer");
    db.assert_sound();
}

#[test]
fn the_backoff_doubles_ten_times_and_then_stays() {
    let db = database();
    let mut s = db.session();
    let job = id(&s.call("fn_job_enqueue('x', p_max_attempts => 15)"));
    let mut ladder = Vec::new();
    let mut clock = 0;
    loop {
        claimed(&mut s, "bob");
        let answer = s.call(&format!("fn_job_fail_or_retry('{job}', 'bob', 'boom')"));
        if answer["code"] == "dead_letter" {
            assert_eq!(answer["attempts"], json!(15));
            break;
        }
        let backoff = answer["backoff_sec"].as_i64().expect("a number");
        ladder.push(backoff);
        // To the microsecond: from the end of the attempt to the new schedule.
        let exact = s.text(&format!(
            "SELECT q.scheduled_at - a.ended_at = interval '{backoff} s'
             FROM agentq.job_queue q JOIN agentq.job_attempt a USING (job_id)
             WHERE q.job_id = '{job}' ORDER BY a.attempt_no DESC LIMIT 1"
        ));
        assert_eq!(exact, "t", "after {ladder:?}");
        clock += backoff + 60;
        s.shift_clock(clock);
    }
    assert_eq!(ladder, [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240, 10240, 10240, 10240]);
    assert_eq!(attempts(&mut s, &job).len(), 15);
    db.assert_sound();
}

#[test]
fn the_base_of_the_backoff_is_a_setting() {
    let db = database();
    let mut s = db.session();
    s.call("fn_config_set('queue.retry.backoff_base_sec', '3')");
    let job = held(&mut s, "");
    let fail = format!("fn_job_fail_or_retry('{job}', 'bob', 'boom')");
    assert_eq!(s.call(&fail)["backoff_sec"], json!(3));
    s.shift_clock(10);
    claimed(&mut s, "bob");
    assert_eq!(s.call(&fail)["backoff_sec"], json!(6));
    // With 0 there is no waiting at all.
    s.call("fn_config_set('queue.retry.backoff_base_sec', '0')");
    s.shift_clock(60);
    claimed(&mut s, "bob");
    assert_eq!(expect(&mut s, "retry_waiting", &fail)["backoff_sec"], json!(0));
    assert_eq!(s.state(&job), "retry_waiting");
    assert_eq!(claimed(&mut s, "bob")["attempt"], json!(4));
}

#[test]
fn the_last_failure_ends_in_the_dead_letters_with_all_that_is_known() {
    let db = database();
    let mut s = db.session();
    let job = held(
        &mut s,
        ", p_idempotency_key => 'k', p_actor => 'ann', p_payload_json => '{\"n\": 1}', p_source_ref => 'src',
         p_target_ref => 'tgt', p_payload_ref => 'ref', p_max_attempts => 1,
         p_run_id => '11111111-2222-3333-4444-555555555555'",
    );
    let answer = expect(&mut s, "dead_letter", &format!("fn_job_fail_or_retry('{job}', 'bob', 'boom')"));
    assert_eq!((answer["job_id"].clone(), answer["state"].clone()), (json!(job), json!("dead_letter")));
    assert_eq!(answer["attempts"], json!(1));
    let letter = text(&answer, "dead_letter_id");
    let row = s.text(&format!(
        "SELECT concat_ws('|', job_id = '{job}', job_kind, source_ref, target_ref, payload_ref, payload_json, final_error,
             attempts, actor, run_id, idempotency_key, moved_by, triage_status, queue)
         FROM agentq.job_dead_letter WHERE dead_letter_id = '{letter}'"
    ));
    assert_eq!(row, "t|x|src|tgt|ref|{\"n\": 1}|boom|1|ann|11111111-2222-3333-4444-555555555555|k|bob|pending|default");
    let row = s.text(&format!(
        "SELECT concat_ws('|', state, attempts, last_error, finished_at IS NOT NULL)
         FROM agentq.job_queue WHERE job_id = '{job}'"
    ));
    assert_eq!(row, "dead_letter|1|boom|t");
    assert_eq!(attempts(&mut s, &job), ["1 bob failed boom"]);
    s.shift_clock(100_000);
    assert_eq!(s.claim("bob")["code"], "empty");
    db.assert_sound();
}

#[test]
fn a_failure_that_does_not_say_why_is_still_a_failure() {
    let db = database();
    let mut s = db.session();
    let job = held(&mut s, ", p_max_attempts => 3");
    for (error, clock) in [("NULL", 60), ("''", 120)] {
        expect(&mut s, "retry_waiting", &format!("fn_job_fail_or_retry('{job}', 'bob', {error})"));
        s.shift_clock(clock);
        claimed(&mut s, "bob");
    }
    expect(&mut s, "dead_letter", &format!("fn_job_fail_or_retry('{job}', 'bob', ' ')"));
    assert_eq!(s.text("SELECT final_error FROM agentq.job_dead_letter"), "no error was given");
}

#[test]
fn an_endless_error_is_cut_between_two_letters() {
    let db = database();
    let mut s = db.session();
    let job = held(&mut s, "");
    // Three bytes a letter, which does not divide the bound.
    s.call(&format!("fn_job_fail_or_retry('{job}', 'bob', repeat('€', 100000))"));
    let kept = "SELECT octet_length(last_error) || ' ' || rtrim(last_error, '€') FROM agentq.job_queue";
    assert_eq!(s.text(kept), "65535 ");
}

#[test]
fn every_attempt_is_recorded_however_it_ended() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    claimed(&mut s, "a");
    s.call(&format!("fn_job_release('{job}', 'a')"));
    claimed(&mut s, "b");
    s.call(&format!("fn_job_snooze('{job}', 'b', agentq.fn_clock_now())"));
    claimed(&mut s, "c");
    s.call(&format!("fn_job_fail_or_retry('{job}', 'c', 'boom')"));
    s.shift_clock(60);
    expect(&mut s, "claimed", "fn_job_claim('d', NULL, 10)");
    s.shift_clock(120);
    claimed(&mut s, "e");
    let ends = "SELECT concat_ws(' ', attempt_no, lease_owner, coalesce(outcome, 'held'))
        FROM agentq.job_attempt ORDER BY attempt_no";
    assert_eq!(s.texts(ends), ["1 a released", "2 b snoozed", "3 c failed", "4 d lease_expired", "5 e held"]);
    s.call(&format!("fn_job_ack('{job}', 'e')"));
    assert_eq!(s.texts(ends)[4], "5 e succeeded");
    let sound = "SELECT bool_and(began_at <= ended_at) AND count(DISTINCT attempt_id) = 5
        FROM agentq.job_attempt";
    assert_eq!(s.text(sound), "t");
    let listed = s.call(&format!("fn_job_get('{job}')"));
    assert_eq!(listed["attempts"].as_array().map(Vec::len), Some(5));
    assert_eq!(listed["attempts"][3]["error_class"], "lease_expired");
}

#[test]
fn attempts_that_end_a_job_otherwise_are_recorded_as_such() {
    let db = database();
    let mut s = db.session();
    let cancelled = held(&mut s, "");
    s.call(&format!("fn_job_cancel('{cancelled}', 'not needed')"));
    s.call(&format!("fn_job_release('{cancelled}', 'bob')"));
    assert_eq!(attempts(&mut s, &cancelled), ["1 bob cancelled not needed"]);
    let buried = held(&mut s, "");
    s.call(&format!("fn_job_move_to_dead_letter('{buried}', 'hopeless')"));
    assert_eq!(attempts(&mut s, &buried), ["1 bob dead_letter hopeless"]);
    // Nobody held these when they ended, so there was no attempt.
    let never = s.enqueue("x");
    s.call(&format!("fn_job_cancel('{never}')"));
    assert!(attempts(&mut s, &never).is_empty());
    db.assert_sound();
}
