//! Durable steps: what is done is not done again.

use agentq_tests::process::RaiseAtEnd;
use agentq_tests::{
    Session, Value, attempts, claimed, database, eventually, expect, id, json, refused, token, until_someone_waits,
};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// A held job: its id and the token of its attempt.
#[track_caller]
pub fn held(s: &mut Session) -> (String, String) {
    s.enqueue("x");
    let claim = claimed(s, "bob");
    (id(&claim), token(&claim))
}

/// Lets the lease of a silent worker run out, and claims the job again.
#[track_caller]
pub fn crash(s: &mut Session, job: &str) -> String {
    let offset: f64 = s.text("SHOW agentq.clock_offset").parse().expect("a number");
    s.shift_clock(offset as i64 + 400);
    let claim = claimed(s, "bob");
    assert_eq!(id(&claim), job);
    token(&claim)
}

#[track_caller]
fn begin(s: &mut Session, job: &str, name: &str, more: &str) -> Value {
    s.call(&format!("fn_step_begin('{job}', 'bob', '{name}'{more})"))
}

#[track_caller]
fn complete(s: &mut Session, job: &str, name: &str, result: &str) {
    expect(s, "completed", &format!("fn_step_complete('{job}', 'bob', '{name}', '{result}')"));
}

/// The steps of a job as people see them.
#[track_caller]
fn steps(s: &mut Session, job: &str) -> Vec<String> {
    s.texts(&format!(
        "SELECT concat_ws(' ', position, name, occurrence, status, attempts, result)
         FROM agentq.v_job_step WHERE job_id = '{job}' ORDER BY position"
    ))
}

#[test]
fn a_crash_costs_the_step_in_flight_and_no_other() {
    let db = database();
    let mut s = db.session();
    let (job, _) = held(&mut s);
    let first = expect(&mut s, "run", &format!("fn_step_begin('{job}', 'bob', 'search', '{{\"q\": 1}}')"));
    assert_eq!(
        (first["attempt"].clone(), first["occurrence"].clone(), first["position"].clone()),
        (json!(1), json!(1), json!(1))
    );
    complete(&mut s, &job, "search", r#"{"found": [1, 2.50]}"#);
    assert_eq!(begin(&mut s, &job, "write", "")["code"], "run");
    // The worker dies; another goes on.
    crash(&mut s, &job);
    let done = begin(&mut s, &job, "search", ", '{\"q\": 1.0}'");
    assert_eq!((done["code"].clone(), done["result"].clone()), (json!("done"), json!({"found": [1, 2.5]})));
    assert_eq!(
        s.text(&format!(
            "SELECT agentq.fn_step_begin('{job}', 'bob', 'search', '{{\"q\": 1}}')->'result'->'found'->>1"
        )),
        "2.50"
    );
    let again = begin(&mut s, &job, "write", "");
    assert_eq!((again["code"].clone(), again["attempt"].clone()), (json!("run"), json!(2)));
    complete(&mut s, &job, "write", "null");
    assert_eq!(begin(&mut s, &job, "write", "")["result"], json!(null));
    assert_eq!(steps(&mut s, &job), ["1 search 1 done 1 {\"found\": [1, 2.50]}", "2 write 1 done 2 null"]);
    db.assert_sound();
}

#[test]
fn a_step_that_failed_runs_again() {
    let db = database();
    let mut s = db.session();
    let (job, _) = held(&mut s);
    begin(&mut s, &job, "a", "");
    expect(&mut s, "failed", &format!("fn_step_fail('{job}', 'bob', 'a', 'no network')"));
    assert_eq!(s.text("SELECT status || ': ' || error FROM agentq.v_job_step"), "failed: no network");
    // Also if it must not run twice: it was not done.
    let again = begin(&mut s, &job, "a", ", p_options => '{\"idempotent\": false}'");
    assert_eq!((again["code"].clone(), again["attempt"].clone()), (json!("run"), json!(2)));
    complete(&mut s, &job, "a", "1");
    assert_eq!(begin(&mut s, &job, "a", "")["result"], json!(1));
    // An answer that was lost is asked for again.
    let again = expect(&mut s, "completed", &format!("fn_step_complete('{job}', 'bob', 'a', '2')"));
    assert_eq!((again["again"].clone(), begin(&mut s, &job, "a", "")["result"].clone()), (json!(true), json!(1)));
}

#[test]
fn whoever_has_lost_the_lease_can_neither_begin_nor_complete() {
    let db = database();
    let mut s = db.session();
    let (job, old) = held(&mut s);
    begin(&mut s, &job, "a", "");
    let new = crash(&mut s, &job);
    for call in [
        format!("fn_step_begin('{job}', 'bob', 'b', p_lease_token => '{old}')"),
        format!("fn_step_complete('{job}', 'bob', 'a', '1', '{old}')"),
        format!("fn_step_fail('{job}', 'bob', 'a', 'no', '{old}')"),
        format!("fn_step_begin('{job}', 'ann', 'b')"),
        format!("fn_checkpoint_save('{job}', 'bob', '{{}}', '{old}')"),
        format!("fn_job_sleep('{job}', 'bob', p_for => '1 hour', p_lease_token => '{old}')"),
        format!("fn_signal_wait('{job}', 'bob', 'go', p_lease_token => '{old}')"),
    ] {
        expect(&mut s, "lease_lost", &call);
    }
    assert_eq!(s.count("agentq_internal.job_step"), 1);
    // What another attempt has begun, this one has not.
    let sql = format!("SELECT agentq.fn_step_complete('{job}', 'bob', 'a', '1', '{new}')");
    refused(&mut s, &sql, "55000", "has not begun the step \"a\"", "fn_step_begin");
    let none = "SELECT agentq.fn_step_begin('00000000-0000-4000-8000-000000000001', 'bob', 'a')";
    refused(&mut s, none, "P0002", "there is no job", "");
    db.assert_sound();
}

#[test]
fn other_inputs_are_refused_with_what_changed() {
    let db = database();
    let mut s = db.session();
    let (job, _) = held(&mut s);
    begin(&mut s, &job, "mail", r#", '{"to": "ann", "copies": [1, {"b": 1, "a": 2}]}'"#);
    complete(&mut s, &job, "mail", "true");
    let same = begin(&mut s, &job, "mail", r#", '{"copies": [1.0, {"a": 2, "b": 1}], "to": "ann"}'"#);
    assert_eq!(same["code"], "done");
    let sql = format!(r#"SELECT agentq.fn_step_begin('{job}', 'bob', 'mail', '{{"to": "eve", "by": 1}}')"#);
    let failure = s.fails(&sql);
    assert_eq!(failure.code, "22023");
    for part in ["the step \"mail\"", "changed: \"to\"", "new: \"by\"", "gone: \"copies\""] {
        assert!(failure.message.contains(part), "{failure:?}");
    }
    let before = s.text("SELECT inputs_hash FROM agentq.v_job_step");
    assert!(failure.message.contains(&before) && failure.hint.contains("another name"), "{failure:?}");
}

#[test]
fn the_turns_of_a_loop_are_counted_or_named() {
    let db = database();
    let mut s = db.session();
    let (job, _) = held(&mut s);
    let repeat = ", p_options => '{\"repeat\": true}'";
    for turn in 1..=5 {
        let answer = begin(&mut s, &job, "page", repeat);
        assert_eq!((answer["code"].clone(), answer["occurrence"].clone()), (json!("run"), json!(turn)));
        if turn == 2 {
            // Begun twice without an end, it is the same turn.
            assert_eq!(begin(&mut s, &job, "page", repeat)["occurrence"], json!(2));
        }
        if turn < 5 {
            complete(&mut s, &job, "page", &turn.to_string());
        }
    }
    // A new attempt meets them in the same order, and goes on with the one in flight.
    for _ in 0..2 {
        crash(&mut s, &job);
        for turn in 1..=4 {
            let answer = begin(&mut s, &job, "page", repeat);
            assert_eq!((answer["code"].clone(), answer["result"].clone()), (json!("done"), json!(turn)), "{answer}");
        }
        assert_eq!(begin(&mut s, &job, "page", repeat)["occurrence"], json!(5));
    }
    complete(&mut s, &job, "page", "5");
    assert_eq!(begin(&mut s, &job, "page", repeat)["occurrence"], json!(6));
    // By index in any order; without either the name is one step.
    for index in [3, 1] {
        let options = format!(", p_options => '{{\"index\": {index}}}'");
        assert_eq!(begin(&mut s, &job, "file", &options)["code"], "run");
        expect(&mut s, "completed", &format!("fn_step_complete('{job}', 'bob', 'file', '{index}'{options})"));
    }
    assert_eq!(begin(&mut s, &job, "file", "")["result"], json!(1));
    for index in [9, 7] {
        begin(&mut s, &job, "last", &format!(", p_options => '{{\"index\": {index}}}'"));
    }
    // The one that is going on is meant, of several the last.
    complete(&mut s, &job, "last", "9");
    complete(&mut s, &job, "last", "7");
    assert_eq!(s.texts("SELECT result FROM agentq.v_job_step WHERE name = 'last' ORDER BY occurrence"), ["7", "9"]);
    db.assert_sound();
}

#[test]
fn ordered_steps_are_begun_in_the_same_order_by_every_attempt() {
    let db = database();
    let mut s = db.session();
    let (job, _) = held(&mut s);
    let ordered = ", p_options => '{\"ordered\": true}'";
    for name in ["a", "b", "c"] {
        assert_eq!(begin(&mut s, &job, name, ordered)["code"], "run");
        complete(&mut s, &job, name, "1");
    }
    crash(&mut s, &job);
    assert_eq!(begin(&mut s, &job, "a", ordered)["code"], "done");
    for name in ["c", "new"] {
        let sql = format!("SELECT agentq.fn_step_begin('{job}', 'bob', '{name}'{ordered})");
        let message = format!("the step \"{name}\" is begun where an earlier run of the job began the step \"b\"");
        refused(&mut s, &sql, "22023", &message, "same order");
    }
    for name in ["b", "c"] {
        assert_eq!(begin(&mut s, &job, name, ordered)["code"], "done");
    }
    assert_eq!(begin(&mut s, &job, "new", ordered)["position"], json!(4));
    // Without the option the order is free.
    crash(&mut s, &job);
    assert_eq!(begin(&mut s, &job, "c", "")["code"], "done");
}

#[test]
fn a_step_that_must_not_run_twice_asks_what_became_of_it() {
    let db = database();
    let mut s = db.session();
    let (job, _) = held(&mut s);
    let careful = ", p_options => '{\"idempotent\": false}'";
    assert_eq!(begin(&mut s, &job, "pay", careful)["code"], "run");
    assert_eq!(s.text("SELECT status FROM agentq.v_job_step"), "running");
    // A person cannot decide while its holder is at it.
    let sql = format!("SELECT agentq.fn_step_resolve('{job}', NULL, 'pay', 'done')");
    refused(&mut s, &sql, "55000", "still holds job", "its lease has ended");
    crash(&mut s, &job);
    assert_eq!(s.text("SELECT status FROM agentq.v_job_step"), "unknown");
    // Whoever asks, and however often.
    for more in [careful, "", careful] {
        let answer = begin(&mut s, &job, "pay", more);
        assert_eq!((answer["code"].clone(), answer["ok"].clone()), (json!("unknown_outcome"), json!(false)));
    }
    expect(&mut s, "resolved", &format!("fn_step_resolve('{job}', 'bob', 'pay', 'not_done', p_note => 'no charge')"));
    assert_eq!(begin(&mut s, &job, "pay", careful)["code"], "run");
    crash(&mut s, &job);
    expect(&mut s, "resolved", &format!("fn_step_resolve('{job}', NULL, 'pay', 'done', '{{\"charge\": 7}}')"));
    assert_eq!(begin(&mut s, &job, "pay", careful)["result"], json!({"charge": 7}));
    let late = s.call(&format!("fn_step_resolve('{job}', 'bob', 'pay', 'not_done')"));
    assert_eq!((late["code"].clone(), late["ok"].clone()), (json!("not_unknown"), json!(false)));
    assert_eq!(s.count("agentq.event WHERE event_kind = 'step.resolved'"), 2);
    let sql = format!("SELECT agentq.fn_step_resolve('{job}', 'bob', 'pay', 'perhaps')");
    refused(&mut s, &sql, "22023", "p_verdict \"perhaps\" is not known", "done, not_done");
}

#[test]
fn a_step_and_its_work_commit_together_or_not_at_all() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    let (job, _) = held(&mut s);
    s.run("CREATE TABLE paid (n int)");
    s.run("BEGIN");
    begin(&mut s, &job, "pay", "");
    s.run("INSERT INTO paid VALUES (1)");
    complete(&mut s, &job, "pay", "1");
    // A heartbeat from another session is not held up, and the lease is not recovered meanwhile.
    expect(&mut other, "extended", &format!("fn_job_heartbeat('{job}', 'bob')"));
    other.shift_clock(4000);
    assert_eq!(other.claim("eve")["code"], "empty");
    s.run("ROLLBACK");
    assert_eq!(begin(&mut s, &job, "pay", "")["attempt"], json!(1));
    s.run("BEGIN; INSERT INTO paid VALUES (1)");
    complete(&mut s, &job, "pay", "1");
    s.run("COMMIT");
    assert_eq!((begin(&mut s, &job, "pay", "")["code"].clone(), s.count("paid")), (json!("done"), 1));
    db.assert_sound();
}

#[test]
fn two_sessions_of_one_holder_begin_one_step_one_after_the_other() {
    let db = database();
    let (mut a, mut b) = (db.session(), db.session());
    let (job, _) = held(&mut a);
    a.run("BEGIN");
    begin(&mut a, &job, "pay", "");
    let call = format!(
        "SELECT agentq.fn_step_begin('{job}', 'bob', 'pay', p_options => '{{\"idempotent\": false}}')->>'code'"
    );
    let waiting = std::thread::spawn(move || b.text(&call));
    until_someone_waits(&mut db.session());
    complete(&mut a, &job, "pay", "1");
    a.run("COMMIT");
    assert_eq!(waiting.join().expect("no panic"), "done");
}

#[test]
fn results_and_names_have_bounds() {
    let db = database();
    let mut s = db.session();
    let (job, _) = held(&mut s);
    begin(&mut s, &job, "a", "");
    s.call("fn_config_set('flow.result.max_bytes', '1024')");
    let sql = format!("SELECT agentq.fn_step_complete('{job}', 'bob', 'a', to_jsonb(repeat('x', 2000)))");
    refused(&mut s, &sql, "22023", "more than the 1024 allowed", "flow.result.max_bytes");
    complete(&mut s, &job, "a", "1");
    for (arguments, code, message) in [
        ("' '", "22023", "p_name must not be empty"),
        ("NULL", "22004", "p_name must not be NULL"),
        ("repeat('n', 201)", "22023", "201 bytes long"),
        ("'a', p_options => '{\"indexes\": 1}'", "22023", "unknown key \"indexes\""),
        ("'a', p_options => '{\"index\": 0}'", "22023", "whole number from 1"),
        ("'a', p_options => '{\"index\": 1, \"repeat\": true}'", "22023", "exclude each other"),
        ("'a', p_options => '{\"ordered\": 1}'", "22023", "must be true or false"),
        ("'a', p_options => '[]'", "22023", "p_options must be a JSON object"),
        ("'a', '{\"n\": 1e400}'", "22023", "p_inputs cannot be read"),
    ] {
        refused(&mut s, &format!("SELECT agentq.fn_step_begin('{job}', 'bob', {arguments})"), code, message, "");
    }
    // Each step, sleep and wait has a name of its own.
    let sql = format!("SELECT agentq.fn_job_sleep('{job}', 'bob', p_for => '1 s', p_name => 'a')");
    refused(&mut s, &sql, "22023", "\"a\" is the name of a step", "a name of its own");
    s.call("fn_config_set('queue.job_substrate.enabled', 'false')");
    expect(&mut s, "gate_closed", &format!("fn_step_begin('{job}', 'bob', 'b')"));
}

#[test]
fn a_checkpoint_is_saved_and_loaded_by_itself() {
    let db = database();
    let mut s = db.session();
    let (job, _) = held(&mut s);
    assert_eq!(expect(&mut s, "none", &format!("fn_checkpoint_load('{job}')"))["checkpoint"], json!(null));
    let until = |s: &mut Session| s.text("SELECT lease_until FROM agentq_internal.job_lease");
    let before = until(&mut s);
    expect(&mut s, "saved", &format!("fn_checkpoint_save('{job}', 'bob', '{{\"step_index\": 1}}')"));
    expect(&mut s, "saved", &format!("fn_checkpoint_save('{job}', 'bob', '{{\"step_index\": 2}}')"));
    assert_eq!(until(&mut s), before);
    assert_eq!(
        expect(&mut s, "found", &format!("fn_checkpoint_load('{job}')"))["checkpoint"],
        json!({"step_index": 2})
    );
    s.shift_clock(400);
    assert_eq!(claimed(&mut s, "bob")["checkpoint"], json!({"step_index": 2}));
    s.call("fn_config_set('queue.checkpoint.max_bytes', '1024')");
    for call in ["fn_checkpoint_save('JOB', 'bob', BIG)", "fn_job_heartbeat('JOB', 'bob', p_checkpoint => BIG)"] {
        let call = call.replace("JOB", &job).replace("BIG", "to_jsonb(repeat('x', 2000))");
        let sql = format!("SELECT agentq.{call}");
        refused(&mut s, &sql, "22023", "more than the 1024 allowed", "queue.checkpoint.max_bytes");
    }
    let none = "SELECT agentq.fn_checkpoint_load('00000000-0000-4000-8000-000000000001')";
    refused(&mut s, none, "P0002", "there is no job", "");
}

#[test]
fn a_job_sleeps_without_cost_and_wakes_where_it_was() {
    let db = database();
    let mut s = db.session();
    let (job, _) = held(&mut s);
    begin(&mut s, &job, "a", "");
    complete(&mut s, &job, "a", "1");
    expect(&mut s, "saved", &format!("fn_checkpoint_save('{job}', 'bob', '{{\"n\": 1}}')"));
    let slept = expect(&mut s, "slept", &format!("fn_job_sleep('{job}', 'bob', p_for => '1 hour', p_name => 'pause')"));
    assert_eq!(slept["state"], "queued");
    assert_eq!(s.claim("bob")["code"], "empty");
    let gate = s.call(&format!("fn_job_explain('{job}')"))["gates"][0].clone();
    assert_eq!((gate["gate"].clone(), gate["until"].clone()), (json!("sleep"), slept["until"].clone()));
    expect(&mut s, "lease_lost", &format!("fn_step_begin('{job}', 'bob', 'b')"));
    assert_eq!(s.text("SELECT status FROM agentq.v_job_step WHERE kind = 'sleep'"), "sleeping");
    db.assert_sound();
    // Woken before its time, it sleeps on until the time that was said first.
    expect(&mut s, "changed", &format!("fn_job_change('{job}', '{{\"scheduled_at\": \"2020-01-01\"}}')"));
    claimed(&mut s, "bob");
    let again =
        expect(&mut s, "slept", &format!("fn_job_sleep('{job}', 'bob', p_for => '9 hours', p_name => 'pause')"));
    assert_eq!(again["until"], slept["until"]);
    s.shift_clock(3601);
    let claim = claimed(&mut s, "bob");
    assert_eq!((claim["attempt"].clone(), claim["checkpoint"].clone()), (json!(1), json!({"n": 1})));
    for _ in 0..2 {
        expect(&mut s, "woke", &format!("fn_job_sleep('{job}', 'bob', p_for => '1 hour', p_name => 'pause')"));
    }
    assert_eq!(begin(&mut s, &job, "a", "")["code"], "done");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    assert_eq!(attempts(&mut s, &job), ["1 bob slept", "2 bob slept", "3 bob succeeded"]);
    db.assert_sound();
}

#[test]
fn sleeps_without_a_name_are_counted_and_one_in_the_past_is_over_at_once() {
    let db = database();
    let mut s = db.session();
    let (job, _) = held(&mut s);
    let sleep = format!("fn_job_sleep('{job}', 'bob', p_for => '1 hour')");
    expect(&mut s, "woke", &format!("fn_job_sleep('{job}', 'bob', '2020-01-01')"));
    expect(&mut s, "slept", &sleep);
    s.shift_clock(3601);
    claimed(&mut s, "bob");
    expect(&mut s, "woke", &sleep);
    expect(&mut s, "woke", &sleep);
    expect(&mut s, "slept", &sleep);
    s.shift_clock(7300);
    claimed(&mut s, "bob");
    for _ in 0..3 {
        expect(&mut s, "woke", &sleep);
    }
    // Somebody has asked to cancel it: it does not go to sleep.
    expect(&mut s, "cancel_requested", &format!("fn_job_cancel('{job}')"));
    expect(&mut s, "cancelled", &sleep);
    for (arguments, message) in [
        ("", "until when the job is to sleep, or for how long"),
        (", '2030-01-01', '1 hour'", "not both or neither"),
        (", p_for => '-1 hour'", "p_for must be from 0 to 3650 days"),
        (", 'infinity'", "p_until must be a moment"),
    ] {
        refused(&mut s, &format!("SELECT agentq.fn_job_sleep('{job}', 'bob'{arguments})"), "22023", message, "");
    }
    db.assert_sound();
}

#[test]
fn a_replay_takes_over_the_steps_that_it_is_to_keep() {
    let db = database();
    let mut s = db.session();
    let (job, _) = held(&mut s);
    for (name, more) in [("search", ""), ("pay", ", p_options => '{\"idempotent\": false}'"), ("mail", "")] {
        begin(&mut s, &job, name, more);
        complete(&mut s, &job, name, &format!("\"{name}\""));
    }
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    let answer = s.call(&format!("fn_job_replay('{job}')"));
    assert_eq!((answer["code"].clone(), answer["steps"].clone()), (json!("not_idempotent"), json!(["pay"])));
    assert_eq!(s.call(&format!("fn_job_replay('{job}', 'specific_step', 'pay')"))["code"], "not_idempotent");
    let sql = format!("SELECT agentq.fn_job_replay('{job}', 'specific_step', 'fly')");
    refused(&mut s, &sql, "22023", "does not say that the step \"fly\" was done", "search, pay, mail");
    for (from, kept) in [("'specific_step', 'mail'", 2), ("'last_checkpoint'", 3)] {
        let again = id(&expect(&mut s, "replayed", &format!("fn_job_replay('{job}', {from})")));
        claimed(&mut s, "bob");
        let done: Vec<Value> =
            ["search", "pay", "mail"].map(|name| begin(&mut s, &again, name, "")["code"].clone()).to_vec();
        let expected: Vec<Value> = (0..3).map(|n| json!(if n < kept { "done" } else { "run" })).collect();
        assert_eq!(done, expected, "{from}");
    }
    let again = "fn_job_replay('JOB', p_options => '{\"allow_non_idempotent\": true}')".replace("JOB", &job);
    let again = id(&expect(&mut s, "replayed", &again));
    assert_eq!(s.count(&format!("agentq_internal.job_step WHERE job_id = '{again}'")), 0);
    db.assert_sound();
}

#[test]
fn a_redriven_job_goes_on_after_its_steps() {
    let db = database();
    let mut s = db.session();
    let (job, _) = held(&mut s);
    begin(&mut s, &job, "a", "");
    complete(&mut s, &job, "a", "1");
    begin(&mut s, &job, "pay", ", p_options => '{\"idempotent\": false}'");
    expect(&mut s, "saved", &format!("fn_checkpoint_save('{job}', 'bob', '{{\"n\": 1}}')"));
    expect(&mut s, "dead_letter", &format!("fn_job_move_to_dead_letter('{job}', 'no')"));
    let letter = s.text("SELECT dead_letter_id FROM agentq.job_dead_letter");
    // Begun anew, it might pay twice.
    let anew = format!("fn_dead_letter_redrive('{letter}', p_options => '{{\"keep_steps\": false}}')");
    let refusal = s.call(&anew);
    assert_eq!((refusal["code"].clone(), refusal["steps"].clone()), (json!("not_idempotent"), json!(["pay"])));
    let again = id(&expect(&mut s, "redriven", &format!("fn_dead_letter_redrive('{letter}')")));
    assert_eq!(claimed(&mut s, "bob")["checkpoint"], json!({"n": 1}));
    assert_eq!(begin(&mut s, &again, "a", "")["code"], "done");
    // What nobody knew before, nobody knows now.
    assert_eq!(begin(&mut s, &again, "pay", "")["code"], "unknown_outcome");
    let sql = format!("SELECT agentq.fn_dead_letter_redrive('{letter}', p_options => '{{\"keep_steps\": 1}}')");
    refused(&mut s, &sql, "22023", "keep_steps must be true or false, not 1", "Give true");
    // The letter outlives its job, and the steps do not: what must not be done twice is not begun anew in silence.
    s.call("fn_job_purge('0 days')");
    let sql = format!(
        "SELECT agentq.fn_dead_letter_redrive('{letter}', p_options => '{{\"keep_steps\": true, \"again\": true}}')"
    );
    refused(&mut s, &sql, "22023", "was removed, and its steps with it", "without keep_steps");
    let many =
        s.call(r#"fn_dead_letter_redrive(p_filter => '{}', p_options => '{"keep_steps": true, "again": true}')"#);
    assert_eq!((many["redriven"].clone(), many["refused"].clone()), (json!(0), json!(1)), "{many}");
    // The letter still knows what must not be done twice.
    let refusal = s.call(&format!("fn_dead_letter_redrive('{letter}', p_options => '{{\"again\": true}}')"));
    assert_eq!((refusal["code"].clone(), refusal["steps"].clone()), (json!("not_idempotent"), json!(["pay"])));
    let many = s.call(r#"fn_dead_letter_redrive(p_filter => '{}', p_options => '{"again": true}')"#);
    assert_eq!((&many["refused"], &many["jobs"][0]["steps"]), (&json!(1), &json!(["pay"])), "{many}");
    let many = s.call(
        r#"fn_dead_letter_redrive(p_filter => '{}', p_options => '{"again": true, "allow_non_idempotent": true}')"#,
    );
    assert_eq!(many["redriven"], 1, "{many}");
}

#[test]
fn a_sleep_or_a_wait_is_no_step_that_somebody_could_have_done() {
    let db = database();
    let mut s = db.session();
    let (job, _) = held(&mut s);
    expect(&mut s, "waiting", &format!("fn_signal_wait('{job}', 'bob', 'approved', '')"));
    let name = s.text("SELECT name FROM agentq.v_job_step");
    let call = format!(r#"fn_step_resolve('{job}', NULL, '{name}', 'done', '{{"payload": 1}}')"#);
    assert_eq!(s.call(&call)["code"], "not_unknown");
    expect(&mut s, "sent", "fn_signal_send('approved', '', '2')");
    assert_eq!(s.text("SELECT status FROM agentq.v_job_step"), "done");
}

#[test]
fn the_steps_of_a_job_go_after_it() {
    let db = database();
    let mut s = db.session();
    for _ in 0..3 {
        let (job, _) = held(&mut s);
        begin(&mut s, &job, "a", "");
        expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    }
    let (job, _) = held(&mut s);
    begin(&mut s, &job, "a", "");
    s.call("fn_engine_tick('clean_flow')");
    assert_eq!(s.count("agentq_internal.job_step"), 4);
    s.call("fn_job_purge('0 s')");
    s.call("fn_engine_tick('clean_flow')");
    assert_eq!(s.texts("SELECT job_id FROM agentq_internal.job_step"), [job]);
}

/// Runs the next job to its end, step by step, each with its work in one transaction. False: there was none.
fn work(client: &mut postgres::Client, owner: &str) -> Result<bool, postgres::Error> {
    let claim: Value = client.query_one("SELECT agentq.fn_job_claim($1, p_lease_seconds => 1)", &[&owner])?.get(0);
    if claim["code"] != "claimed" {
        return Ok(false);
    }
    let (job, token) = (id(&claim), token(&claim));
    for step in 1..=4 {
        let mut transaction = client.transaction()?;
        let call = format!("SELECT agentq.fn_step_begin('{job}', '{owner}', 'step {step}', '{{}}', '{token}')");
        let begun: Value = transaction.query_one(&call, &[])?.get(0);
        if begun["code"] == "lease_lost" {
            return Ok(true);
        }
        if begun["code"] == "run" {
            transaction.batch_execute(&format!("INSERT INTO ran VALUES ('{job}', {step}); SELECT pg_sleep(0.01)"))?;
            let call = format!("SELECT agentq.fn_step_complete('{job}', '{owner}', 'step {step}', '1', '{token}')");
            let completed: Value = transaction.query_one(&call, &[])?.get(0);
            assert_eq!(completed["code"], "completed");
        }
        transaction.commit()?;
    }
    client.query_one(&format!("SELECT agentq.fn_job_ack('{job}', '{owner}', NULL, '{token}')"), &[])?;
    Ok(true)
}

#[test]
fn workers_that_are_killed_do_the_work_of_each_step_once() {
    let db = database();
    let mut s = db.session();
    s.run("CREATE TABLE ran (job uuid, step int)");
    s.call("fn_config_set('queue.poison.max_crashes', '0')");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (db, over) = (&db, &over);
            scope.spawn(move || {
                let mut client = db.session().0;
                eventually("all jobs are done", || {
                    // Killed: it comes back as a new one.
                    if work(&mut client, &format!("w{number}")).is_err() {
                        client = db.session().0;
                    }
                    over.load(SeqCst) && db.session().count("agentq.job_queue WHERE finished_at IS NULL") == 0
                });
            });
        }
        let _over = RaiseAtEnd(&over);
        for _ in 0..25 {
            // There are always more jobs than the three can hold.
            s.run(
                "SELECT agentq.fn_job_enqueue('x', p_max_attempts => 1000)
                 FROM generate_series(1, 6 - (SELECT count(*) FROM agentq_internal.job_ready))",
            );
            let kill = "(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
                 AND pid <> pg_backend_pid() AND query ~ 'fn_step|ran' ORDER BY random() LIMIT 1) k";
            eventually("somebody is killed", || s.count(kill) == 1);
        }
    });
    let jobs = s.count("agentq_internal.job_done");
    assert_eq!(s.count("ran"), jobs * 4);
    assert_eq!(s.count("(SELECT DISTINCT job, step FROM ran) r"), jobs * 4);
    assert_ne!(s.count("agentq.job_attempt WHERE outcome = 'lease_expired'"), 0, "somebody was killed");
    db.assert_sound();
}

#[test]
fn a_job_that_comes_on_with_every_attempt_is_no_poison() {
    let db = database();
    let mut s = db.session();
    s.call("fn_job_enqueue('long', p_max_attempts => 50)");
    let job = id(&claimed(&mut s, "bob"));
    for number in 0..6 {
        let name = format!("s{number}");
        begin(&mut s, &job, &name, "");
        complete(&mut s, &job, &name, "1");
        crash(&mut s, &job);
    }
    for number in 0..6 {
        expect(&mut s, "saved", &format!("fn_checkpoint_save('{job}', 'bob', '{{\"n\": {number}}}')"));
        crash(&mut s, &job);
    }
    // Without progress the third silence in a row is one too many; to begin a step is none.
    for _ in 0..2 {
        begin(&mut s, &job, "the last", "");
        let offset: f64 = s.text("SHOW agentq.clock_offset").parse().expect("a number");
        s.shift_clock(offset as i64 + 400);
        s.call("fn_job_claim('bob')");
    }
    assert_eq!(s.text("SELECT reason FROM agentq.job_dead_letter"), "poison");
    db.assert_sound();
}
