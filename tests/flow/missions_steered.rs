//! Cancel, pause, resume, fork.

use super::{assert_whole, claim, done, failed, start, status, steps, template, work_off};
use agentq_tests::{database, expect, id, json};

#[test]
fn a_cancel_lets_what_runs_finish_and_nothing_else_begin() {
    let db = database();
    let mut s = db.session();
    let text = template(&[("a", &[]), ("b", &[]), ("c", &["a"]), ("d", &["c"])]);
    let mission = start(&mut s, &text, "");
    let held = claim(&mut s, "a");
    expect(&mut s, "cancelling", &format!("fn_mission_cancel('{mission}', 'enough')"));
    assert_eq!(steps(&mut s, &mission), "a running, b cancelled, c waiting, d waiting");
    assert_eq!(s.claim("bob")["code"], "empty");
    let again = s.call(&format!("fn_mission_cancel('{mission}')"));
    assert_eq!((&again["ok"], &again["code"]), (&json!(false), &json!("already_stopping")));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob', '{{\"x\": 1}}')", id(&held)));
    assert_eq!(steps(&mut s, &mission), "a succeeded, b cancelled, c cancelled, d cancelled");
    assert_eq!(status(&mut s, &mission), "cancelled");
    let row = s.json("SELECT to_jsonb(m) FROM agentq.v_mission m", &[]);
    assert_eq!((&row["cancel_reason"], &row["cancellation_mode"]), (&json!("enough"), &json!("graceful")));
    let again = expect(&mut s, "already_finished", &format!("fn_mission_cancel('{mission}')"));
    assert_eq!(again["status"], "cancelled");
    assert_eq!(s.claim("bob")["code"], "empty");
    assert_eq!(s.count("agentq.event WHERE event_kind = 'mission.cancelled'"), 1);
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_cancel_that_compensates_ends_as_cancelled_when_there_is_nothing_to_compensate() {
    let db = database();
    let mut s = db.session();
    let mission = start(&mut s, &template(&[("a", &[])]), "");
    expect(&mut s, "cancelled", &format!("fn_mission_cancel('{mission}', p_mode => 'compensate_then_stop')"));
    assert_eq!(s.text("SELECT cancellation_mode FROM agentq.mission"), "compensate_then_stop");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_cancel_goes_down_into_missions_and_a_rollback_undoes_it() {
    let db = database();
    let mut s = db.session();
    let inner = json!({"steps": [{"name": "deep", "mission": {"steps": [{"name": "x", "kind": "x"}, {"name": "y", "kind": "y"}]}}]});
    let mission = start(
        &mut s,
        &json!({"steps": [{"name": "sub", "mission": inner}, {"name": "z", "kind": "z", "depends_on": ["sub"]}]}),
        "",
    );
    let held = claim(&mut s, "x");
    s.run("BEGIN");
    expect(&mut s, "cancelling", &format!("fn_mission_cancel('{mission}')"));
    s.run("ROLLBACK");
    assert_eq!(s.count("agentq.mission WHERE status = 'running'"), 3);
    assert_whole(&mut s);
    expect(&mut s, "cancelling", &format!("fn_mission_cancel('{mission}')"));
    assert_eq!(s.count("agentq.mission WHERE status = 'cancelling'"), 3);
    assert_eq!(s.claim("bob")["code"], "empty");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&held)));
    assert_eq!(s.count("agentq.mission WHERE status = 'cancelled'"), 3);
    assert_eq!(steps(&mut s, &mission), "sub cancelled, z cancelled");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_failure_stops_the_missions_inside_with_the_next_round_of_the_engine() {
    let db = database();
    let mut s = db.session();
    let text = json!({"steps": [{"name": "a", "kind": "a"}, {"name": "sub", "mission": {"steps": [{"name": "x", "kind": "x"}]}}]});
    let mission = start(&mut s, &text, "");
    failed(&mut s, "a");
    assert_eq!(steps(&mut s, &mission), "a failed, sub running");
    s.call("fn_engine_tick('tend_missions')");
    assert_eq!(steps(&mut s, &mission), "a failed, sub cancelled");
    assert_eq!(status(&mut s, &mission), "failed");
    let paused = expect(&mut s, "already_finished", &format!("fn_mission_pause('{mission}')"));
    assert_eq!(paused["message"], "the mission is failed and stays so");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_pause_holds_back_what_may_begin_until_the_resume() {
    let db = database();
    let mut s = db.session();
    let mission = start(&mut s, &template(&[("a", &[]), ("b", &[]), ("c", &["a"]), ("d", &["c"])]), "");
    expect(&mut s, "paused", &format!("fn_mission_pause('{mission}', 'lunch')"));
    expect(&mut s, "already_paused", &format!("fn_mission_pause('{mission}')"));
    // What is a job goes on; what would become one waits.
    done(&mut s, "a", &json!(null));
    done(&mut s, "b", &json!(null));
    assert_eq!(steps(&mut s, &mission), "a succeeded, b succeeded, c waiting, d waiting");
    assert_eq!(s.claim("bob")["code"], "empty");
    assert_eq!(s.texts("SELECT name FROM agentq.v_mission_step WHERE held"), ["c"]);
    let explained = s.call(&format!("fn_mission_explain('{mission}')"));
    assert_eq!((&explained["code"], &explained["paused_reason"]), (&json!("paused"), &json!("lunch")));
    assert_whole(&mut s);
    expect(&mut s, "resumed", &format!("fn_mission_resume('{mission}')"));
    expect(&mut s, "not_paused", &format!("fn_mission_resume('{mission}')"));
    assert_eq!(work_off(&mut s), ["c", "d"]);
    assert_eq!(status(&mut s, &mission), "succeeded");
    assert_whole(&mut s);
    // A paused mission can be cancelled.
    let mission = start(&mut s, &template(&[("a", &[]), ("b", &["a"])]), "");
    expect(&mut s, "paused", &format!("fn_mission_pause('{mission}')"));
    done(&mut s, "a", &json!(null));
    expect(&mut s, "cancelled", &format!("fn_mission_cancel('{mission}')"));
    assert_eq!(steps(&mut s, &mission), "a succeeded, b cancelled");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_mission_may_be_started_paused_and_is_approved_until_it_is_resumed() {
    let db = database();
    let mut s = db.session();
    let text = template(&[("a", &[]), ("b", &["a"])]);
    let mission = start(&mut s, &text, ", p_options => '{\"paused\": true}'");
    assert_eq!(status(&mut s, &mission), "approved");
    assert_eq!(s.claim("bob")["code"], "empty");
    expect(&mut s, "resumed", &format!("fn_mission_resume('{mission}')"));
    assert_eq!(status(&mut s, &mission), "running");
    assert_eq!(work_off(&mut s), ["a", "b"]);
    assert_eq!(status(&mut s, &mission), "succeeded");
    let mission = start(&mut s, &text, ", p_options => '{\"paused\": true}'");
    expect(&mut s, "cancelled", &format!("fn_mission_cancel('{mission}')"));
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_fork_keeps_what_comes_before_its_beginning() {
    let db = database();
    let mut s = db.session();
    let text = json!({"title": "t", "steps": [{"name": "a", "kind": "a"}, {"name": "b", "kind": "b", "depends_on": ["a"], "params": {"x": 1, "y": 2}},
        {"name": "c", "kind": "c", "depends_on": ["b"], "params": {"a": {"$from": "$.a.n"}, "b": {"$from": "$.b.n"}}},
        {"name": "side", "kind": "side", "depends_on": ["a"]}]});
    let mission = start(&mut s, &text, "");
    for (kind, n) in [("a", 1), ("b", 2), ("c", 3), ("side", 4)] {
        done(&mut s, kind, &json!({"n": n}));
    }
    let answer = expect(
        &mut s,
        "forked",
        &format!("fn_mission_fork('{mission}', 'b', '{{\"params\": {{\"b\": {{\"x\": 9}}}}}}')"),
    );
    let fork = answer["mission_id"].as_str().unwrap().to_owned();
    assert_eq!(steps(&mut s, &fork), "a succeeded, b queued, c waiting, side succeeded");
    let b = claim(&mut s, "b");
    assert_eq!(b["payload_json"], json!({"x": 9, "y": 2}));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob', '{{\"n\": 20}}')", id(&b)));
    assert_eq!(claim(&mut s, "c")["payload_json"], json!({"a": 1, "b": 20}));
    let row = s.json(&format!("SELECT to_jsonb(m) FROM agentq.v_mission m WHERE mission_id = '{fork}'"), &[]);
    assert_eq!((&row["forked_from"], &row["forked_step"], &row["title"]), (&json!(mission), &json!("b"), &json!("t")));
    assert_eq!(s.count("agentq_internal.mission_step WHERE taken_from IS NOT NULL"), 2);
    // A mission that failed goes on from the step that failed.
    let mission = start(&mut s, &text, "");
    done(&mut s, "a", &json!({"n": 1}));
    failed(&mut s, "b");
    assert_eq!(status(&mut s, &mission), "failed");
    let answer = expect(&mut s, "forked", &format!("fn_mission_fork('{mission}', 'b')"));
    let fork = answer["mission_id"].as_str().unwrap().to_owned();
    assert_eq!(steps(&mut s, &fork), "a succeeded, b queued, c waiting, side queued");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_key_starts_one_mission() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    let text = template(&[("a", &[])]);
    let call = format!("fn_mission_start('{text}', '{{\"idempotency_key\": \"k\"}}')");
    s.run("BEGIN");
    let first = s.call(&call);
    assert_eq!(first["code"], "started");
    let waiting = std::thread::spawn(move || other.call(&call));
    agentq_tests::until_someone_waits(&mut db.session());
    s.run("COMMIT");
    let second = waiting.join().unwrap();
    assert_eq!((&second["code"], &second["mission_id"]), (&json!("duplicate"), &first["mission_id"]));
    assert_eq!(s.count("agentq.mission"), 1);
    assert_eq!(s.count("agentq_internal.job"), 1);
    // A rolled back start leaves nothing.
    s.run("BEGIN");
    start(&mut s, &text, "");
    s.run("ROLLBACK");
    assert_eq!(
        (s.count("agentq.mission"), s.count("agentq_internal.mission_step"), s.count("agentq_internal.job")),
        (1, 1, 1)
    );
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn whoever_holds_a_step_of_a_cancelled_mission_hears_of_it_from_every_call() {
    let db = database();
    let mut s = db.session();
    let text = json!({"steps": [{"name": "a", "kind": "a"},
        {"name": "sub", "mission": {"steps": [{"name": "x", "kind": "x"}]}}]});
    let mission = start(&mut s, &text, "");
    let (a, x) = (id(&claim(&mut s, "a")), id(&claim(&mut s, "x")));
    expect(&mut s, "cancelling", &format!("fn_mission_cancel('{mission}', 'enough')"));
    for job in [&a, &x] {
        for call in [
            format!("fn_job_heartbeat('{job}', 'bob')"),
            format!("fn_job_start('{job}', 'bob')"),
            format!("fn_step_begin('{job}', 'bob', 's')"),
            format!("fn_step_complete('{job}', 'bob', 's')"),
            format!("fn_step_begin('{job}', 'bob', 't')"),
            format!("fn_step_fail('{job}', 'bob', 't', 'no')"),
            format!("fn_checkpoint_save('{job}', 'bob', '{{}}')"),
            format!("fn_effect_plan('{job}', 'bob', '[{{\"effect_type\": \"mail\"}}]')"),
            format!("fn_job_usage('{job}', 'bob', '{{\"usd\": 1}}')"),
        ] {
            assert_eq!(s.call(&call)["cancel_requested"], true, "{call}");
        }
    }
    assert_eq!(s.call(&format!("fn_job_heartbeat('{a}', 'bob')"))["cancel_reason"], "enough");
    // What it plans, it cannot begin.
    let effect = s.text(&format!("SELECT effect_id FROM agentq.v_effect WHERE job_id = '{a}'"));
    let answer = s.call(&format!("fn_effect_begin('{effect}', 'bob')"));
    assert_eq!((&answer["ok"], &answer["code"]), (&json!(false), &json!("cancel_requested")));
    assert_eq!(s.count("agentq.v_effect WHERE status <> 'planned'"), 0);
    // A failure is not tried again, and a success counts.
    expect(&mut s, "cancelled", &format!("fn_job_fail_or_retry('{a}', 'bob', 'stopped')"));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{x}', 'bob')"));
    assert_eq!(status(&mut s, &mission), "cancelled");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_holder_that_was_just_making_a_call_hears_of_the_cancel_from_the_engine() {
    let db = database();
    let (mut holder, mut s) = (db.session(), db.session());
    let mission = start(&mut s, &template(&[("a", &[])]), "");
    let job = id(&claim(&mut s, "a"));
    s.call(&format!("fn_effect_plan('{job}', 'bob', '[{{\"effect_type\": \"mail\"}}]')"));
    let effect = s.text("SELECT effect_id FROM agentq.v_effect");
    holder.run("BEGIN");
    holder.call(&format!("fn_job_heartbeat('{job}', 'bob')"));
    // The cancel does not wait for it.
    expect(&mut s, "cancelling", &format!("fn_mission_cancel('{mission}')"));
    holder.run("COMMIT");
    assert_eq!(holder.call(&format!("fn_effect_begin('{effect}', 'bob')"))["code"], "cancel_requested");
    assert_eq!(holder.call(&format!("fn_job_heartbeat('{job}', 'bob')"))["cancel_requested"], false);
    s.call("fn_engine_tick('tend_missions')");
    let beat = holder.call(&format!("fn_job_heartbeat('{job}', 'bob')"));
    assert_eq!(
        (&beat["cancel_requested"], &beat["cancel_reason"]),
        (&json!(true), &json!("the mission was cancelled"))
    );
}
