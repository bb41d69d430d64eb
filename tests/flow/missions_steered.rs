//! Cancel, pause, resume, fork.

use super::{assert_whole, claim, done, failed, start, status, steps, template, work_off};
use agentq_tests::{Session, database, expect, id, json, refused, text, until_lock_waits, until_someone_waits};

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

#[test]
fn a_failed_mission_goes_on_from_the_step_that_is_tried_again() {
    let db = database();
    let mut s = db.session();
    let mission = start(&mut s, &template(&[("a", &[]), ("b", &["a"]), ("c", &["b"]), ("d", &["a"])]), "");
    done(&mut s, "a", &json!(1));
    failed(&mut s, "b");
    assert_eq!(
        (status(&mut s, &mission), steps(&mut s, &mission)),
        ("failed".to_owned(), "a succeeded, b failed, c cancelled, d cancelled".to_owned())
    );
    let retried = expect(&mut s, "retried", &format!("fn_mission_retry('{mission}', 'b')"));
    assert_eq!(retried["steps"], json!(["b"]));
    assert_eq!(
        steps(&mut s, &mission),
        "a succeeded, b queued, c waiting, d queued",
        "what the failure had stopped goes on, too"
    );
    assert_eq!(work_off(&mut s), ["b", "d", "c"]);
    assert_eq!(status(&mut s, &mission), "succeeded");
    assert_eq!(s.count("agentq.event WHERE event_kind = 'mission.retried' AND purpose = 'audit'"), 1);
    let again = s.call(&format!("fn_mission_retry('{mission}', 'b')"));
    assert_eq!((again["ok"].as_bool(), &again["code"]), (Some(false), &json!("not_failed")));
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn the_mission_around_a_failed_one_goes_on_with_it() {
    let db = database();
    let mut s = db.session();
    let inner = json!({"steps": [{"name": "x", "kind": "x"}, {"name": "y", "kind": "y", "depends_on": ["x"]}]});
    let outer =
        json!({"steps": [{"name": "in", "mission": inner}, {"name": "after", "kind": "after", "depends_on": ["in"]}]});
    let mission = start(&mut s, &outer, "");
    done(&mut s, "x", &json!(1));
    failed(&mut s, "y");
    assert_eq!(status(&mut s, &mission), "failed");
    let inner = s.text("SELECT mission_id FROM agentq.mission WHERE depth = 1");
    expect(&mut s, "retried", &format!("fn_mission_retry('{inner}', 'y')"));
    assert_eq!((status(&mut s, &mission), status(&mut s, &inner)), ("running".to_owned(), "running".to_owned()));
    assert_eq!(work_off(&mut s), ["y", "after"]);
    assert_eq!((status(&mut s, &mission), status(&mut s, &inner)), ("succeeded".to_owned(), "succeeded".to_owned()));
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_retry_that_cannot_be_is_refused_and_one_that_fails_again_fails_the_mission_again() {
    let db = database();
    let mut s = db.session();
    let mission = start(&mut s, &template(&[("a", &[]), ("b", &[])]), "");
    let (a, b) = (id(&claim(&mut s, "a")), id(&claim(&mut s, "b")));
    for job in [&a, &b] {
        s.call(&format!("fn_job_fail_or_retry('{job}', 'bob', 'boom', p_verdict => 'discard')"));
    }
    let one = s.call(&format!("fn_mission_retry('{mission}', 'a')"));
    assert_eq!((&one["code"], &one["steps"]), (&json!("others_failed"), &json!(["b"])));
    refused(
        &mut s,
        &format!("SELECT agentq.fn_mission_retry('{mission}', 'z')"),
        "22023",
        "there is no step \"z\"",
        "v_mission_step",
    );
    // Without a name, all that failed are tried again.
    let all = expect(&mut s, "retried", &format!("fn_mission_retry('{mission}')"));
    assert_eq!(all["steps"], json!(["a", "b"]));
    done(&mut s, "a", &json!(1));
    failed(&mut s, "b");
    assert_eq!(status(&mut s, &mission), "failed");
    expect(&mut s, "retried", &format!("fn_mission_retry('{mission}', 'b')"));
    done(&mut s, "b", &json!(1));
    assert_eq!(status(&mut s, &mission), "succeeded");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn of_two_who_retry_at_once_one_does() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    let mission = start(&mut s, &template(&[("a", &[]), ("b", &["a"])]), "");
    failed(&mut s, "a");
    s.run("BEGIN");
    expect(&mut s, "retried", &format!("fn_mission_retry('{mission}')"));
    let call = format!("fn_mission_retry('{mission}')");
    let waits = std::thread::spawn(move || other.call(&call));
    agentq_tests::until_someone_waits(&mut db.session());
    s.run("COMMIT");
    assert_eq!(waits.join().unwrap()["code"], "not_failed");
    assert_eq!(work_off(&mut s), ["a", "b"]);
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_pause_of_the_whole_reaches_missions_inside_and_jobs_that_nobody_holds() {
    let db = database();
    let mut s = db.session();
    let inner = json!({"steps": [{"name": "x", "kind": "x"}, {"name": "y", "kind": "y", "depends_on": ["x"]}]});
    let text = json!({"steps": [{"name": "sub", "mission": inner}, {"name": "a", "kind": "a"}, {"name": "b", "kind": "b"},
        {"name": "list", "kind": "item", "for_each": "$.input.all"}]});
    let mission = start(&mut s, &text, ", '{\"input\": {\"all\": [1, 2]}}'");
    let held = claim(&mut s, "b");
    // One that has failed once, and waits for its next try.
    let tried = id(&claim(&mut s, "a"));
    expect(&mut s, "retry_waiting", &format!("fn_job_fail_or_retry('{tried}', 'bob', 'boom')"));
    let due = s.text(&format!("SELECT scheduled_at FROM agentq.job_queue WHERE job_id = '{tried}'"));

    expect(&mut s, "paused", &format!("fn_mission_pause('{mission}', 'lunch', p_whole => true)"));
    expect(&mut s, "already_paused", &format!("fn_mission_pause('{mission}', p_whole => true)"));
    assert_eq!(s.count("agentq.mission WHERE paused_at IS NOT NULL"), 2);
    s.shift_clock(60);
    assert_eq!(s.claim("bob")["code"], "empty");
    let why = s.call(&format!("fn_job_explain('{tried}')"));
    assert!(why.to_string().contains("its mission is paused"), "{why}");
    // Who holds a job goes on, and what it gives back does not run.
    expect(&mut s, "released", &format!("fn_job_release('{}', 'bob')", id(&held)));
    s.call("fn_engine_tick('tend_missions')");
    assert_eq!(s.claim("bob")["code"], "empty");
    assert_whole(&mut s);
    db.assert_sound();

    expect(&mut s, "resumed", &format!("fn_mission_resume('{mission}')"));
    assert_eq!(s.count("agentq.mission WHERE paused_at IS NOT NULL OR paused_with IS NOT NULL"), 0);
    let again = s.json(&format!("SELECT to_jsonb(q) FROM agentq.job_queue q WHERE job_id = '{tried}'"), &[]);
    assert_eq!((&again["attempts"], again["state"].as_str().unwrap()), (&json!(1), "retry_waiting"));
    assert_eq!(s.text(&format!("SELECT scheduled_at FROM agentq.job_queue WHERE job_id = '{tried}'")), due);
    let mut names = work_off(&mut s);
    names.sort();
    assert_eq!(names, ["a", "b", "list", "list", "x", "y"]);
    assert_eq!(status(&mut s, &mission), "succeeded");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_pause_of_the_whole_leaves_a_mission_alone_that_was_paused_before_and_can_be_cancelled() {
    let db = database();
    let mut s = db.session();
    let inner = json!({"steps": [{"name": "x", "kind": "x"}]});
    let mission = start(&mut s, &json!({"steps": [{"name": "sub", "mission": inner}, {"name": "a", "kind": "a"}]}), "");
    let sub = s.text("SELECT mission_id FROM agentq.mission WHERE depth = 1");
    expect(&mut s, "paused", &format!("fn_mission_pause('{sub}')"));
    expect(&mut s, "paused", &format!("fn_mission_pause('{mission}')"));
    expect(&mut s, "paused", &format!("fn_mission_pause('{mission}', p_whole => true)"));
    expect(&mut s, "resumed", &format!("fn_mission_resume('{mission}')"));
    assert_eq!(s.text("SELECT mission_id FROM agentq.mission WHERE paused_at IS NOT NULL"), sub);
    assert_eq!(id(&claim(&mut s, "a")), s.text("SELECT job_id FROM agentq.v_mission_step WHERE name = 'a'"));
    expect(&mut s, "paused", &format!("fn_mission_pause('{mission}', p_whole => true)"));
    expect(&mut s, "cancelling", &format!("fn_mission_cancel('{mission}')"));
    assert_eq!(s.text("SELECT state FROM agentq.job_queue WHERE job_kind = 'x'"), "cancelled");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_step_has_a_retry_policy_of_its_own() {
    let db = database();
    let mut s = db.session();
    s.call("fn_retry_policy_set('kind', 'a', '{\"backoff\": \"fixed\", \"seconds\": 5, \"max_attempts\": 9}')");
    let retry = json!({"max_attempts": 3, "backoff": "list", "delays": [7, 70], "non_retryable": ["Bad-Luck"]});
    let text = json!({"steps": [{"name": "a", "kind": "a", "retry": retry}, {"name": "b", "kind": "a"}]});
    start(&mut s, &text, "");
    let fail = |s: &mut agentq_tests::Session, job: &str, class: &str| {
        s.call(&format!("fn_job_fail_or_retry('{job}', 'bob', 'boom', {class})"))
    };
    let own = s.text("SELECT job_id FROM agentq.v_mission_step WHERE name = 'a'");
    let other = s.text("SELECT job_id FROM agentq.v_mission_step WHERE name = 'b'");
    expect(&mut s, "claimed", &format!("fn_job_claim('bob', p_options => '{{\"job_id\": \"{own}\"}}')"));
    assert_eq!(fail(&mut s, &own, "NULL")["backoff_sec"], 7);
    expect(&mut s, "claimed", &format!("fn_job_claim('bob', p_options => '{{\"job_id\": \"{other}\"}}')"));
    assert_eq!(fail(&mut s, &other, "NULL")["backoff_sec"], 5);
    s.shift_clock(10);
    expect(&mut s, "claimed", &format!("fn_job_claim('bob', p_options => '{{\"job_id\": \"{own}\"}}')"));
    let end = fail(&mut s, &own, "'bad luck'");
    assert_eq!((&end["code"], &end["reason"]), (&json!("dead_letter"), &json!("non_retryable")));
    let kept = s.json("SELECT settings FROM agentq.job_dead_letter", &[]);
    assert_eq!(kept["retry"]["delays"], json!([7, 70]), "{kept}");
    refused(
        &mut s,
        "SELECT agentq.fn_mission_start('{\"steps\": [{\"kind\": \"a\", \"retry\": {\"backoff\": \"list\"}}]}')",
        "22023",
        "steps[0].retry: the backoff \"list\" needs its delays",
        "delays",
    );
}

#[test]
fn a_job_that_somebody_had_locked_when_its_mission_was_resumed_runs_all_the_same() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    let mission = start(&mut s, &template(&[("a", &[]), ("b", &[])]), "");
    let job = s.text("SELECT job_id FROM agentq.v_mission_step WHERE name = 'a'");
    expect(&mut s, "paused", &format!("fn_mission_pause('{mission}', p_whole => true)"));
    other.run("BEGIN");
    expect(&mut other, "changed", &format!("fn_job_change('{job}', '{{\"priority\": 7}}')"));
    expect(&mut s, "resumed", &format!("fn_mission_resume('{mission}')"));
    other.run("COMMIT");
    done(&mut s, "b", &json!({}));
    s.call("fn_engine_tick('tend_missions')");
    done(&mut s, "a", &json!({}));
    assert_eq!(status(&mut s, &mission), "succeeded");
    assert_eq!(s.count("agentq.mission WHERE paused_with IS NOT NULL"), 0);
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_job_whose_sleep_ends_in_a_pause_of_the_whole_sleeps_on() {
    let db = database();
    let mut s = db.session();
    let mission = start(&mut s, &template(&[("a", &[])]), "");
    let job = id(&claim(&mut s, "a"));
    expect(&mut s, "slept", &format!("fn_job_sleep('{job}', 'bob', p_for => '1 minute')"));
    expect(&mut s, "paused", &format!("fn_mission_pause('{mission}', p_whole => true)"));
    s.shift_clock(61);
    s.call("fn_engine_tick('tend_missions')");
    assert_eq!(s.claim("bob")["code"], "empty");
    expect(&mut s, "resumed", &format!("fn_mission_resume('{mission}')"));
    assert_eq!(id(&claim(&mut s, "a")), job);
    db.assert_sound();
}

#[test]
fn a_mission_that_begins_while_the_one_around_it_is_paused_as_a_whole_is_paused_by_the_engine() {
    let db = database();
    let (mut s, mut worker) = (db.session(), db.session());
    let inner = json!({"steps": [{"name": "x", "kind": "x"}]});
    let text = json!({"steps": [{"name": "a", "kind": "a"}, {"name": "sub", "mission": inner, "depends_on": ["a"]}]});
    let mission = start(&mut s, &text, "");
    let job = id(&claim(&mut worker, "a"));
    worker.run("BEGIN");
    expect(&mut worker, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    // It does not see the mission that is being started, and waits for the ack.
    let mut boss = db.session();
    let pause = format!("fn_mission_pause('{mission}', p_whole => true)");
    let boss = std::thread::spawn(move || boss.call(&pause));
    until_lock_waits(&mut s, 1);
    worker.run("COMMIT");
    assert_eq!(boss.join().expect("the pause")["code"], "paused");
    s.call("fn_engine_tick('tend_missions')");
    assert_eq!(s.count("agentq.mission WHERE paused_at IS NOT NULL"), 2);
    assert_eq!(s.claim("bob")["code"], "empty");
    expect(&mut s, "resumed", &format!("fn_mission_resume('{mission}')"));
    assert_eq!(work_off(&mut s), ["x"]);
    assert_eq!(status(&mut s, &mission), "succeeded");
    assert_whole(&mut s);
    db.assert_sound();
}

/// How many gates of missions a session has.
fn gates(s: &mut Session, holder: &str) -> i64 {
    s.count(&format!("pg_locks WHERE pid = {holder} AND locktype = 'advisory' AND objsubid = 169 AND granted"))
}

#[test]
fn who_lets_a_whole_mission_go_on_passes_the_gates_as_others_do() {
    let db = database();
    let (mut s, mut canceller) = (db.session(), db.session());
    let inner = json!({"title": "inner", "steps": [{"name": "i", "kind": "i"}]});
    let template = json!({"title": "outer", "steps": [{"name": "a", "mission": inner}]});
    let outer = text(&expect(&mut s, "started", &format!("fn_mission_start('{template}')")), "mission_id").to_owned();
    let inner = s.text("SELECT mission_id FROM agentq.mission WHERE depth = 1");
    // A worker is at it, so that its end does not follow at once, which would lead to the outer one.
    claim(&mut s, "i");
    expect(&mut s, "paused", &format!("fn_mission_pause('{outer}', p_whole => true)"));
    // Somebody is at the inner one.
    canceller.run("BEGIN");
    expect(&mut canceller, "cancelling", &format!("fn_mission_cancel('{inner}')"));
    let mut resumer = db.session();
    let pid = resumer.text("SELECT pg_backend_pid()");
    let (answer, passed) = std::thread::scope(|scope| {
        let resuming = scope.spawn(|| resumer.call(&format!("fn_mission_resume('{outer}')")));
        until_someone_waits(&mut s);
        let passed = gates(&mut s, &pid);
        canceller.run("ROLLBACK");
        (resuming.join().expect("an answer"), passed)
    });
    assert_eq!(passed, 0, "the deepest comes first: it has not passed the outer gate");
    assert_eq!(answer["code"], "resumed", "{answer}");
    assert_eq!(s.count("agentq.mission WHERE paused_at IS NULL AND status = 'running'"), 2);
    db.assert_sound();
}

#[test]
fn a_pause_of_the_whole_that_is_refused_keeps_no_gate() {
    let db = database();
    let mut s = db.session();
    let template = json!({"title": "t", "steps": [{"name": "a", "kind": "a"}]});
    let mission = text(&expect(&mut s, "started", &format!("fn_mission_start('{template}')")), "mission_id").to_owned();
    expect(&mut s, "claimed", "fn_job_claim('bob', 'a')");
    expect(&mut s, "cancelling", &format!("fn_mission_cancel('{mission}')"));
    let pid = s.text("SELECT pg_backend_pid()");
    s.run("BEGIN");
    for call in [format!("fn_mission_pause('{mission}')"), format!("fn_mission_pause('{mission}', p_whole => true)")] {
        let answer = s.call(&call);
        assert_eq!(answer["ok"], json!(false), "{answer}");
        assert_eq!(gates(&mut s, &pid), 0, "{call}");
    }
    s.run("COMMIT");
}
