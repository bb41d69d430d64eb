//! The ends of steps and missions: failures, branches, time-outs, and every way in which a job ends.

use super::{assert_whole, claim, done, failed, start, status, steps, template, work_off};
use agentq_tests::{database, expect, id, json};

#[test]
fn every_way_in_which_a_job_ends_ends_its_step() {
    let db = database();
    let mut s = db.session();
    let text = json!({"steps": [{"name": "a", "kind": "a", "on_failure": "continue", "retry": {"max_attempts": 1}},
        {"name": "well", "kind": "k", "depends_on": ["a"]}, {"name": "bad", "kind": "k", "depends_on": [{"step": "a", "status": "failed"}]}]});
    for (end, wanted) in [
        ("fn_job_ack('JOB', 'bob')", "a succeeded, well queued, bad skipped"),
        ("fn_job_ack_batch('bob', '[\"JOB\"]')", "a succeeded, well queued, bad skipped"),
        ("fn_job_ack_and_claim('JOB', 'bob', p_job_kind => 'none')", "a succeeded, well queued, bad skipped"),
        ("fn_job_fail_or_retry('JOB', 'bob', 'boom')", "a failed, well skipped, bad queued"),
        ("fn_job_fail_or_retry('JOB', 'bob', 'boom', p_verdict => 'discard')", "a failed, well skipped, bad queued"),
        ("fn_job_fail_or_retry('JOB', 'bob', 'boom', p_verdict => 'cancel')", "a cancelled, well skipped, bad skipped"),
        ("fn_job_move_to_dead_letter('JOB', 'no')", "a failed, well skipped, bad queued"),
    ] {
        let mission = start(&mut s, &text, "");
        let job = id(&claim(&mut s, "a"));
        s.call(&end.replace("JOB", &job));
        assert_eq!(steps(&mut s, &mission), wanted, "{end}");
        work_off(&mut s);
        assert_eq!(status(&mut s, &mission), "succeeded", "{end}");
        assert_whole(&mut s);
    }
    // A job that nobody holds, cancelled or given up.
    for (end, wanted) in [
        ("fn_job_cancel('JOB')", "a cancelled, well skipped, bad skipped"),
        ("fn_job_move_to_dead_letter('JOB', 'no')", "a failed, well skipped, bad queued"),
    ] {
        let mission = start(&mut s, &text, "");
        let job = s.text("SELECT job_id FROM agentq.job_queue WHERE state = 'queued'");
        s.call(&end.replace("JOB", &job));
        assert_eq!(steps(&mut s, &mission), wanted, "{end}");
        work_off(&mut s);
        assert_eq!(status(&mut s, &mission), "succeeded", "{end}");
    }
    // A worker that fell silent: recovered by a claim, by the engine's chore, and for a stale executor.
    for recover in ["fn_job_claim('cat', 'none')", "fn_engine_tick('reap_leases')"] {
        let mission = start(&mut s, &text, "");
        claim(&mut s, "a");
        s.shift_clock(1000);
        s.call(recover);
        assert_eq!(steps(&mut s, &mission), "a failed, well skipped, bad queued", "{recover}");
        s.shift_clock(0);
        work_off(&mut s);
        assert_eq!(status(&mut s, &mission), "succeeded", "{recover}");
    }
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_parked_job_keeps_its_step_open_until_it_is_reconciled() {
    let db = database();
    let mut s = db.session();
    let mission = start(&mut s, &template(&[("a", &[]), ("b", &["a"])]), "");
    s.run("UPDATE agentq_internal.job SET external_effects = true");
    claim(&mut s, "a");
    s.shift_clock(1000);
    s.call("fn_engine_tick('reap_leases')");
    assert_eq!(steps(&mut s, &mission), "a queued, b waiting");
    let job = s.text("SELECT job_id FROM agentq.v_mission_step WHERE name = 'a'");
    expect(&mut s, "reconciled", &format!("fn_job_reconcile('{job}', 'done')"));
    assert_eq!(steps(&mut s, &mission), "a succeeded, b queued");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_failed_step_fails_the_mission_when_what_runs_has_ended() {
    let db = database();
    let mut s = db.session();
    let text = template(&[("a", &[]), ("b", &[]), ("c", &[]), ("d", &["b"]), ("e", &["d"])]);
    let mission = start(&mut s, &text, ", p_options => '{\"title\": \"t\"}'");
    let running = claim(&mut s, "b");
    failed(&mut s, "a");
    assert_eq!(steps(&mut s, &mission), "a failed, b running, c cancelled, d waiting, e waiting");
    assert_eq!(status(&mut s, &mission), "running");
    assert_eq!(s.claim("bob")["code"], "empty");
    assert_eq!(s.call(&format!("fn_mission_explain('{mission}')"))["code"], "failing");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&running)));
    assert_eq!(steps(&mut s, &mission), "a failed, b succeeded, c cancelled, d cancelled, e cancelled");
    assert_eq!(status(&mut s, &mission), "failed");
    let row = s.json("SELECT to_jsonb(m) FROM agentq.v_mission m", &[]);
    assert_eq!((&row["failed_step"], &row["last_error"]), (&json!("a"), &json!("boom")));
    assert_eq!((&row["failed"], &row["succeeded"], &row["cancelled"]), (&json!(1), &json!(1), &json!(3)));
    assert_eq!(s.count("agentq.event WHERE event_kind = 'mission.failed' AND payload->>'error' = 'boom'"), 1);
    assert_eq!(s.count("agentq.event WHERE event_kind = 'step.failed' AND payload->>'step' = 'a'"), 1);
    assert_eq!(s.claim("bob")["code"], "empty");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_failure_may_lead_to_another_step() {
    let db = database();
    let mut s = db.session();
    let text = json!({"steps": [{"name": "a", "kind": "a", "on_failure": {"goto": "oops"}},
        {"name": "b", "kind": "b", "on_failure": {"goto": "oops"}}, {"name": "next", "kind": "k", "depends_on": ["a", "b"]},
        {"name": "oops", "kind": "oops", "params": {"why": {"$from": "$.b.error"}}}]});
    let mission = start(&mut s, &text, "");
    done(&mut s, "a", &json!(null));
    failed(&mut s, "b");
    assert_eq!(steps(&mut s, &mission), "a succeeded, b failed, next skipped, oops queued");
    let oops = claim(&mut s, "oops");
    assert_eq!(oops["payload_json"], json!({"why": "boom"}));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&oops)));
    assert_eq!(status(&mut s, &mission), "succeeded");
    // Nothing went wrong, so it is not needed.
    let mission = start(&mut s, &text, "");
    done(&mut s, "a", &json!(null));
    done(&mut s, "b", &json!(null));
    assert_eq!(steps(&mut s, &mission), "a succeeded, b succeeded, next queued, oops skipped");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn steps_and_missions_run_out_of_time() {
    let db = database();
    let mut s = db.session();
    let mission = start(
        &mut s,
        &json!({"steps": [{"name": "a", "kind": "a", "timeout_seconds": 200},
        {"name": "b", "kind": "b", "depends_on": ["a"]}]}),
        "",
    );
    claim(&mut s, "a");
    s.shift_clock(220);
    s.call("fn_engine_tick('enforce_deadlines')");
    assert_eq!(steps(&mut s, &mission), "a failed, b cancelled");
    assert_eq!(status(&mut s, &mission), "failed");
    s.shift_clock(0);
    let mission = start(
        &mut s,
        &json!({"timeout_seconds": 200, "steps": [{"name": "a", "kind": "a"}, {"name": "b", "kind": "b"}]}),
        "",
    );
    let held = claim(&mut s, "a");
    s.shift_clock(150);
    s.call("fn_engine_tick('tend_missions')");
    assert_eq!(steps(&mut s, &mission), "a running, b queued");
    s.shift_clock(220);
    s.call("fn_engine_tick('tend_missions')");
    assert_eq!(steps(&mut s, &mission), "a running, b cancelled");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&held)));
    assert_eq!(status(&mut s, &mission), "failed");
    let error = s.text(&format!("SELECT last_error FROM agentq.mission WHERE mission_id = '{mission}'"));
    assert!(error.contains("time-out"), "{error}");
    // Also one that was never begun.
    let mission =
        start(&mut s, &template(&[("a", &[])]), ", p_options => '{\"paused\": true, \"timeout_seconds\": 200}'");
    s.shift_clock(600);
    s.call("fn_engine_tick('tend_missions')");
    assert_eq!(status(&mut s, &mission), "failed");
    assert_eq!(steps(&mut s, &mission), "a cancelled");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn parameters_that_cannot_be_made_fail_the_step_and_not_the_ack_before_it() {
    let db = database();
    let mut s = db.session();
    s.call("fn_config_set('queue.payload.max_bytes', '2000')");
    let text = json!({"steps": [{"name": "a", "kind": "a"},
        {"name": "b", "kind": "b", "depends_on": ["a"], "params": {"x": {"$from": "$.a"}, "y": {"$from": "$.a"}}}]});
    let mission = start(&mut s, &text, "");
    done(&mut s, "a", &json!("z".repeat(1500)));
    assert_eq!(steps(&mut s, &mission), "a succeeded, b failed");
    assert_eq!(status(&mut s, &mission), "failed");
    let error = s.text("SELECT last_error FROM agentq_internal.mission_step WHERE name = 'b'");
    assert!(error.contains("queue.payload.max_bytes") || error.contains("bytes"), "{error}");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_mission_inside_another_is_one_of_its_steps() {
    let db = database();
    let mut s = db.session();
    let text = json!({"steps": [{"name": "a", "kind": "a"},
        {"name": "sub", "depends_on": ["a"], "params": {"n": {"$from": "$.a.n"}}, "mission": {"steps": [
            {"name": "x", "kind": "x", "params": {"n": {"$from": "$.input.n"}}},
            {"name": "y", "kind": "y", "depends_on": ["x"]}]}},
        {"name": "z", "kind": "z", "depends_on": ["sub"], "params": {"y": {"$from": "$.sub.y.v"}}}]});
    let mission = start(&mut s, &text, "");
    done(&mut s, "a", &json!({"n": 5}));
    assert_eq!(steps(&mut s, &mission), "a succeeded, sub running, z waiting");
    let child = s.text("SELECT child_mission_id FROM agentq.v_mission_step WHERE name = 'sub'");
    let x = claim(&mut s, "x");
    assert_eq!(x["payload_json"], json!({"n": 5}));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&x)));
    assert_whole(&mut s);
    done(&mut s, "y", &json!({"v": 6}));
    assert_eq!(status(&mut s, &child), "succeeded");
    assert_eq!(steps(&mut s, &mission), "a succeeded, sub succeeded, z queued");
    assert_eq!(claim(&mut s, "z")["payload_json"], json!({"y": 6}));
    let row = s.json(&format!("SELECT to_jsonb(m) FROM agentq.v_mission m WHERE mission_id = '{child}'"), &[]);
    assert_eq!(
        (&row["parent_mission_id"], &row["parent_step"], &row["depth"]),
        (&json!(mission), &json!("sub"), &json!(1))
    );
    // Its failure goes up.
    let mission = start(&mut s, &text, "");
    done(&mut s, "a", &json!({"n": 5}));
    failed(&mut s, "x");
    assert_eq!(steps(&mut s, &mission), "a succeeded, sub failed, z cancelled");
    assert_eq!(status(&mut s, &mission), "failed");
    // One that has nothing to do ends at once, and what is behind it begins.
    let empty = json!({"steps": [{"name": "sub", "mission": {"steps": [{"kind": "k", "when": "$.input.never == 1"}]}},
        {"name": "z", "kind": "last", "depends_on": ["sub"]}]});
    let mission = start(&mut s, &empty, "");
    assert_eq!(steps(&mut s, &mission), "sub succeeded, z queued");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn ended_missions_are_removed_when_their_time_has_come() {
    let db = database();
    let mut s = db.session();
    let text = json!({"steps": [{"name": "sub", "mission": {"steps": [{"kind": "k", "for_each": "$.input"}]}, "params": {"a": 1}},
        {"name": "b", "kind": "k", "depends_on": ["sub"]}]});
    start(&mut s, &text, "");
    let open = start(&mut s, &template(&[("other", &[])]), "");
    for _ in 0..2 {
        done(&mut s, "k", &json!(1));
    }
    s.shift_clock(604_000);
    s.call("fn_engine_tick('tend_missions')");
    assert_eq!(s.count("agentq.mission"), 3);
    s.shift_clock(605_000);
    s.call("fn_engine_tick('tend_missions')");
    assert_eq!(s.texts("SELECT mission_id FROM agentq.mission"), [open]);
    for table in ["mission_step", "mission_edge", "mission_item", "mission_count"] {
        let rows = s.qualified(table);
        assert_eq!(s.count(&rows), i64::from(["mission_step", "mission_count"].contains(&table)), "{table}");
    }
    db.assert_sound();
}

#[test]
fn a_condition_that_takes_too_long_fails_its_step_and_holds_up_nobody() {
    let db = database();
    let mut s = db.session();
    let slow = "$.find.v[*] ? (@ < 0 || exists ($.find.v[*] ? (@ < 0 || exists ($.find.v[*] ? (@ < 0)))))";
    let values: Vec<u32> = (0..3_000).collect();
    for (what, error) in [
        (json!({"when": slow}), "when: it took longer than 1000 ms"),
        (json!({"for_each": slow}), "for_each: it took longer than 1000 ms"),
        (json!({"params": {"x": {"$from": slow}}}), "it took longer than 1000 ms"),
    ] {
        let mut step = json!({"name": "b", "kind": "b", "depends_on": ["find"]});
        step.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
        let mission = start(&mut s, &json!({"steps": [{"name": "find", "kind": "find"}, step]}), "");
        // It would take minutes.
        s.run("SET statement_timeout = '60s'");
        done(&mut s, "find", &json!({"v": values}));
        s.run("RESET statement_timeout");
        assert_eq!(steps(&mut s, &mission), "find succeeded, b failed");
        assert_eq!(s.text(&format!("SELECT last_error FROM agentq.mission WHERE mission_id = '{mission}'")), error);
        assert_whole(&mut s);
    }
    db.assert_sound();
}

#[test]
fn a_person_who_cancels_an_ack_that_evaluates_a_condition_is_heard() {
    let db = database();
    let mut s = db.session();
    let slow = "$.find.v[*] ? (@ < 0 || exists ($.find.v[*] ? (@ < 0 || exists ($.find.v[*] ? (@ < 0)))))";
    let text = json!({"steps": [{"name": "find", "kind": "find"}, {"name": "b", "kind": "b", "depends_on": ["find"], "when": slow}]});
    let mission = start(&mut s, &text, "");
    let job = id(&claim(&mut s, "find"));
    let values: Vec<u32> = (0..3_000).collect();
    s.run("SET statement_timeout = '300ms'");
    let failure = s.fails(&format!("SELECT agentq.fn_job_ack('{job}', 'bob', '{}')", json!({"v": values})));
    assert_eq!(failure.code, "57014", "{}", failure.message);
    s.run("RESET statement_timeout");
    assert_eq!(steps(&mut s, &mission), "find running, b waiting");
    db.assert_sound();
}
