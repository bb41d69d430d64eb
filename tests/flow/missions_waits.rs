//! Steps without a worker: they sleep, or wait for a signal.

use super::{assert_whole, claim, done, start, status, steps, template};
use agentq_tests::{Session, Value, database, expect, json, refused, text};

#[track_caller]
fn tick(s: &mut Session) {
    let answer = s.call("fn_engine_tick('end_waits')");
    assert_eq!(answer["failed"], json!(0), "{answer}");
}

fn result(s: &mut Session, mission: &str, step: &str) -> Value {
    let sql = format!(
        "SELECT coalesce(result, 'null') FROM agentq.v_mission_step WHERE mission_id = '{mission}' AND name = '{step}'"
    );
    s.json(&sql, &[])
}

#[test]
fn a_step_sleeps_without_a_job_and_the_mission_goes_on_when_it_is_over() {
    let db = database();
    let mut s = db.session();
    let text = json!({"steps": [{"name": "a", "kind": "a"}, {"name": "rest", "sleep": {"seconds": 3600}, "depends_on": ["a"]},
        {"name": "b", "kind": "b", "depends_on": ["rest"]}]});
    let mission = start(&mut s, &text, "");
    done(&mut s, "a", &json!({}));
    assert_eq!(steps(&mut s, &mission), "a succeeded, rest running, b waiting");
    tick(&mut s);
    assert_eq!(steps(&mut s, &mission), "a succeeded, rest running, b waiting");
    let explained = s.call(&format!("fn_mission_explain('{mission}')"));
    assert_eq!(explained["waits"][0]["step"], "rest", "{explained}");
    assert!(explained["waits"][0]["until"].is_string(), "{explained}");
    assert_eq!(s.count("agentq_internal.job WHERE job_kind = 'sleep'"), 0);
    s.shift_clock(3601);
    tick(&mut s);
    assert_eq!(steps(&mut s, &mission), "a succeeded, rest succeeded, b queued");
    assert_eq!(s.count("agentq.mission_wait"), 0);
    assert_whole(&mut s);
    done(&mut s, "b", &json!({}));
    assert_eq!(status(&mut s, &mission), "succeeded");
    db.assert_sound();
}

#[test]
fn a_step_sleeps_until_a_moment_that_a_path_finds() {
    let db = database();
    let mut s = db.session();
    let until = s.text("SELECT (agentq.fn_clock_now() + interval '1 hour')::text");
    let text = json!({"steps": [{"name": "rest", "sleep": {"until": "$.input.at"}}]});
    let mission = start(&mut s, &text, &format!(", '{{\"input\": {{\"at\": \"{until}\"}}}}'"));
    tick(&mut s);
    assert_eq!(steps(&mut s, &mission), "rest running");
    s.shift_clock(3601);
    tick(&mut s);
    assert_eq!(status(&mut s, &mission), "succeeded");
    for input in ["{}", "{\"at\": \"soon\"}"] {
        let mission = start(&mut s, &text, &format!(", '{{\"input\": {input}}}'"));
        assert_eq!(status(&mut s, &mission), "failed", "{input}");
        let error = s.text(&format!("SELECT last_error FROM agentq.mission WHERE mission_id = '{mission}'"));
        assert!(error.starts_with("sleep.until"), "{error}");
    }
    db.assert_sound();
}

fn with_signal(more: Value) -> Value {
    let mut wait = json!({"name": "ok", "signal": {"name": "approved", "key": "$.input.order"}});
    wait.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"steps": [wait, {"name": "b", "kind": "b", "depends_on": ["ok"], "params": {"by": {"$from": "$.ok.payload.by"}}}]})
}

#[test]
fn a_signal_ends_the_step_that_waits_for_it_whether_it_comes_before_or_after() {
    let db = database();
    let mut s = db.session();
    for early in [true, false] {
        let options = ", '{\"input\": {\"order\": 7}}'";
        let send = "fn_signal_send('approved', '7', '{\"by\": \"ann\"}')";
        if early {
            assert_eq!(expect(&mut s, "sent", send)["delivered_to"], json!(null));
        }
        let mission = start(&mut s, &with_signal(json!({})), options);
        expect(&mut s, "sent", "fn_signal_send('approved', '8')");
        tick(&mut s);
        if !early {
            assert_eq!(steps(&mut s, &mission), "ok running, b waiting");
            let sent = expect(&mut s, "sent", send);
            let step = s.text(&format!(
                "SELECT step_id FROM agentq.v_mission_step WHERE mission_id = '{mission}' AND name = 'ok'"
            ));
            assert_eq!(text(&sent, "delivered_to"), step);
            // What was sent is left with the step, and a second one is for the next.
            assert_eq!(expect(&mut s, "sent", send)["delivered_to"], json!(null));
            tick(&mut s);
        }
        assert_eq!(steps(&mut s, &mission), "ok succeeded, b queued");
        assert_eq!(result(&mut s, &mission, "ok")["payload"], json!({"by": "ann"}));
        assert_eq!(claim(&mut s, "b")["payload_json"], json!({"by": "ann"}));
        s.run("DELETE FROM agentq.signal");
        assert_whole(&mut s);
    }
    db.assert_sound();
}

#[test]
fn a_signal_that_is_rolled_back_ends_nothing_and_jobs_and_steps_are_served_in_their_order() {
    let db = database();
    let mut s = db.session();
    let options = ", '{\"input\": {\"order\": \"x\"}}'";
    let first = start(&mut s, &with_signal(json!({})), options);
    tick(&mut s);
    s.run("BEGIN");
    expect(&mut s, "sent", "fn_signal_send('approved', 'x')");
    s.run("ROLLBACK");
    tick(&mut s);
    assert_eq!(steps(&mut s, &first), "ok running, b waiting");
    // A job that waits, and another step behind it.
    s.enqueue("waiter");
    let job = expect(&mut s, "claimed", "fn_job_claim('bob', 'waiter')");
    expect(&mut s, "waiting", &format!("fn_signal_wait('{}', 'bob', 'approved', 'x')", text(&job, "job_id")));
    let second = start(&mut s, &with_signal(json!({})), options);
    tick(&mut s);
    for (sent, step) in [(1, "first"), (2, "job"), (3, "second")] {
        expect(&mut s, "sent", &format!("fn_signal_send('approved', 'x', '{{\"n\": {sent}}}')"));
        tick(&mut s);
        let given = [
            result(&mut s, &first, "ok")["payload"]["n"].clone(),
            result(&mut s, &second, "ok")["payload"]["n"].clone(),
        ];
        let expected = match step {
            "second" => [json!(1), json!(3)],
            _ => [json!(1), Value::Null],
        };
        assert_eq!(given, expected, "{step}");
    }
    assert_eq!(s.state(&text(&job, "job_id")), "queued");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_signal_that_does_not_come_in_time_fails_the_step() {
    let db = database();
    let mut s = db.session();
    let late = with_signal(json!({"timeout_seconds": 60, "on_failure": "continue"}));
    let mission = start(&mut s, &late, ", '{\"input\": {\"order\": \"x\"}}'");
    tick(&mut s);
    s.shift_clock(61);
    tick(&mut s);
    assert_eq!(steps(&mut s, &mission), "ok failed, b skipped");
    let error =
        s.text(&format!("SELECT last_error FROM agentq.v_mission_step WHERE mission_id = '{mission}' AND name = 'ok'"));
    assert_eq!(error, "no signal approved with the key x came in time");
    assert_eq!(status(&mut s, &mission), "succeeded");
    db.assert_sound();
}

#[test]
fn a_cancelled_mission_waits_no_longer() {
    let db = database();
    let mut s = db.session();
    let text = json!({"steps": [{"name": "rest", "sleep": {"seconds": 3600}}, {"name": "ok", "signal": "go"}]});
    let mission = start(&mut s, &text, "");
    tick(&mut s);
    expect(&mut s, "cancelled", &format!("fn_mission_cancel('{mission}')"));
    assert_eq!(steps(&mut s, &mission), "rest cancelled, ok cancelled");
    assert_eq!(s.count("agentq.mission_wait"), 0);
    assert_eq!(expect(&mut s, "sent", "fn_signal_send('go')")["delivered_to"], json!(null));
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn who_sends_a_signal_in_an_open_transaction_holds_up_nobody_else() {
    let db = database();
    let (mut s, mut sender) = (db.session(), db.session());
    let stuck = start(&mut s, &with_signal(json!({})), ", '{\"input\": {\"order\": \"x\"}}'");
    sender.run("BEGIN");
    expect(&mut sender, "sent", "fn_signal_send('approved', 'x')");
    // Steps on the same channel begin and others end, while the sender has it.
    let other = json!({"steps": [{"name": "a", "kind": "a"}, {"name": "ok", "signal": {"name": "approved", "key": "x"}, "depends_on": ["a"]}]});
    s.run("SET statement_timeout = '20s'");
    let begun = start(&mut s, &other, "");
    done(&mut s, "a", &json!({}));
    let rested = start(&mut s, &json!({"steps": [{"name": "rest", "sleep": {"seconds": 0.001}}]}), "");
    s.run("SELECT pg_sleep(0.01)");
    // One turn ends the sleep, or the turn after it: the waits in its way are put off.
    for _ in 0..3 {
        tick(&mut s);
    }
    assert_eq!(status(&mut s, &rested), "succeeded");
    assert_eq!(steps(&mut s, &stuck), "ok running, b waiting");
    sender.run("COMMIT");
    s.shift_clock(2);
    tick(&mut s);
    assert_eq!(steps(&mut s, &stuck), "ok succeeded, b queued");
    assert_eq!(steps(&mut s, &begun), "a succeeded, ok running");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn what_makes_no_sense_for_a_step_without_a_worker_is_refused() {
    let db = database();
    let mut s = db.session();
    for (step, message) in [
        (json!({"sleep": {}}), "say for how many seconds it sleeps, or until when"),
        (json!({"sleep": {"seconds": 1, "until": "2030-01-01"}}), "say for how many seconds"),
        (json!({"sleep": {"until": "tomorrow morning"}}), "steps[0].sleep.until must be a timestamp"),
        (json!({"sleep": {"seconds": -1}}), "steps[0].sleep.seconds"),
        (json!({"sleep": {"seconds": 1}, "signal": "x"}), "cannot both sleep and wait for a signal"),
        (json!({"signal": {"key": "x"}}), "steps[0].signal.name"),
        (json!({"signal": {"name": "x", "key": "$.nobody.id"}}), "there is no step \"nobody\""),
        (json!({"signal": "x", "retry": {"max_attempts": 2}}), "has no worker, and so no retry"),
        (json!({"signal": "x", "params": {}}), "has no worker, and so no params"),
        (
            json!({"sleep": {"seconds": 1}, "timeout_seconds": 5}),
            "a step that sleeps has no worker, and so no timeout_seconds",
        ),
        (json!({"sleep": {"seconds": 1}, "for_each": "$.input"}), "has no worker, and so no for_each"),
    ] {
        let call = format!("SELECT agentq.fn_mission_start($t${}$t$)", json!({"steps": [step]}));
        refused(&mut s, &call, "22023", message, "");
    }
    db.assert_sound();
}

#[test]
fn a_mission_that_begins_with_a_wait_is_under_way() {
    let db = database();
    let mut s = db.session();
    let mission = start(&mut s, &json!({"steps": [{"name": "rest", "sleep": {"seconds": 60}}]}), "");
    let shown = s.json(&format!("SELECT to_jsonb(m) FROM agentq.v_mission m WHERE mission_id = '{mission}'"), &[]);
    assert_eq!(shown["status"], "running");
    assert!(shown["started_at"].is_string(), "{shown}");
    let waits = template(&[("a", &[])]);
    let mission = start(&mut s, &waits, "");
    assert_eq!(s.text(&format!("SELECT status FROM agentq.v_mission WHERE mission_id = '{mission}'")), "approved");
}

#[test]
fn a_signal_passes_over_a_job_that_waits_no_longer_and_finds_the_step_behind_it() {
    let db = database();
    let mut s = db.session();
    s.enqueue("waiter");
    let job = text(&expect(&mut s, "claimed", "fn_job_claim('bob', 'waiter')"), "job_id");
    expect(&mut s, "waiting", &format!("fn_signal_wait('{job}', 'bob', 'go')"));
    let mission = start(&mut s, &json!({"steps": [{"name": "ok", "signal": "go"}]}), "");
    tick(&mut s);
    expect(&mut s, "cancelled", &format!("fn_job_cancel('{job}')"));
    assert_eq!(s.count("agentq.signal_wait"), 1, "what the job leaves behind");
    expect(&mut s, "sent", "fn_signal_send('go')");
    tick(&mut s);
    assert_eq!(status(&mut s, &mission), "succeeded");
    db.assert_sound();
}

#[test]
fn a_signal_that_passed_over_a_step_whose_cancel_was_rolled_back_is_found_later() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    let mission = start(&mut s, &json!({"steps": [{"name": "ok", "signal": "go"}]}), "");
    tick(&mut s);
    other.run("BEGIN");
    expect(&mut other, "cancelled", &format!("fn_mission_cancel('{mission}')"));
    assert_eq!(expect(&mut s, "sent", "fn_signal_send('go')")["delivered_to"], json!(null));
    other.run("ROLLBACK");
    s.shift_clock(61);
    tick(&mut s);
    assert_eq!(status(&mut s, &mission), "succeeded");
    db.assert_sound();
}
