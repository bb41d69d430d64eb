//! What can be seen of a mission.

use super::{claim, done, start, template};
use agentq_tests::{database, id, json};

#[test]
fn explain_says_what_each_open_step_waits_for() {
    let db = database();
    let mut s = db.session();
    let mission = start(&mut s, &template(&[("a", &[]), ("b", &[]), ("c", &["a", "b"]), ("d", &["c"])]), "");
    let held = claim(&mut s, "a");
    let explained = s.call(&format!("fn_mission_explain('{mission}')"));
    assert_eq!((&explained["code"], &explained["open_steps"]), (&json!("running"), &json!(4)));
    let steps = explained["steps"].as_array().unwrap();
    let find = |name: &str| steps.iter().find(|step| step["step"] == name).unwrap();
    assert_eq!((&find("a")["status"], &find("a")["job"]["code"]), (&json!("running"), &json!("held")));
    assert_eq!(find("a")["job_id"], held["job_id"]);
    assert_eq!(find("b")["job"]["code"], "ready");
    assert_eq!(
        find("c")["waits_for"],
        json!([{"step": "a", "status": "running", "required": "succeeded"}, {"step": "b", "status": "queued", "required": "succeeded"}])
    );
    assert_eq!((&find("c")["needs"], &find("d")["waits_for"][0]["step"]), (&json!(2), &json!("c")));
    s.call("fn_queue_pause('default', 'x')");
    let explained = s.call(&format!("fn_mission_explain('{mission}')"));
    let gate =
        &explained["steps"].as_array().unwrap().iter().find(|step| step["step"] == "b").unwrap()["job"]["gates"][0];
    assert_eq!(gate["gate"], "paused");
    s.call("fn_queue_resume('default')");
    s.call(&format!("fn_job_ack('{}', 'bob')", id(&held)));
    for kind in ["b", "c", "d"] {
        done(&mut s, kind, &json!(1));
    }
    let explained = s.call(&format!("fn_mission_explain('{mission}')"));
    assert_eq!((&explained["code"], &explained["steps"]), (&json!("ended"), &json!([])));
    db.assert_sound();
}

#[test]
fn a_mission_is_drawn_with_its_states() {
    let db = database();
    let mut s = db.session();
    let text = json!({"title": "say \"hi\"", "steps": [{"name": "a", "kind": "k", "on_failure": "continue"}, {"name": "b\"]", "kind": "k", "depends_on": ["a"]},
        {"name": "c", "kind": "k", "depends_on": [{"step": "a", "status": "failed"}]}]});
    let mission = start(&mut s, &text, "");
    claim(&mut s, "k");
    let drawn = s.text(&format!("SELECT agentq.fn_mission_graph('{mission}')"));
    for line in [
        "flowchart TD",
        "s0[\"a<br/>k\"]:::running",
        "s1[\"b#34;#93;<br/>k\"]:::waiting",
        "s0 --> s1",
        "s0 -.->|failed| s2",
    ] {
        assert!(drawn.contains(line), "{drawn}");
    }
    let drawn = s.text(&format!("SELECT agentq.fn_mission_graph('{mission}', 'graphviz')"));
    for line in [
        "digraph mission {",
        "label=\"say \\\"hi\\\"\"",
        "s1 [label=\"b\\\"]\\nk\\nwaiting\"",
        "s0 -> s2 [label=\"failed\"",
    ] {
        assert!(drawn.contains(line), "{drawn}");
    }
    let all = s.call(&format!("fn_mission_get('{mission}')"));
    assert_eq!((&all["mission"]["title"], &all["steps"][1]["name"]), (&json!("say \"hi\""), &json!("b\"]")));
    assert_eq!(
        (&all["mission"]["open"], &all["mission"]["waiting"], &all["more_steps"]),
        (&json!(1), &json!(2), &json!(0))
    );
    db.assert_sound();
}

#[test]
fn the_levels_of_access_reach_what_they_should() {
    let db = database();
    let mut s = db.session();
    let roles = ["mp", "mw", "mr", "mo"];
    for (role, level) in roles.iter().zip(["producer", "worker", "reader", "operator"]) {
        db.session_of(role);
        s.call(&format!("fn_access_grant('{role}', '{level}')"));
    }
    let text = template(&[("a", &[])]);
    let mut producer = db.session_of("mp");
    let mission = start(&mut producer, &text, "");
    assert_eq!(producer.fails(&format!("SELECT agentq.fn_mission_cancel('{mission}')")).code, "42501");
    assert_eq!(producer.fails("SELECT * FROM agentq.v_mission").code, "42501");
    let mut worker = db.session_of("mw");
    let job = id(&worker.claim("bob"));
    worker.call(&format!("fn_job_ack('{job}', 'bob')"));
    assert_eq!(worker.fails(&format!("SELECT agentq.fn_mission_start('{text}')")).code, "42501");
    let mut reader = db.session_of("mr");
    assert_eq!(reader.text("SELECT status FROM agentq.v_mission"), "succeeded");
    assert_eq!(reader.count("agentq.v_mission_step"), 1);
    assert_eq!(reader.count("agentq.v_action_run"), 1);
    let mut operator = db.session_of("mo");
    let mission = start(&mut operator, &text, "");
    operator.call(&format!("fn_mission_cancel('{mission}')"));
    db.assert_sound();
}

#[test]
fn the_events_of_steps_that_succeed_can_be_left_out() {
    let db = database();
    let mut s = db.session();
    s.call("fn_config_set('flow.step_events', 'false')");
    start(&mut s, &template(&[("a", &[]), ("b", &["a"])]), "");
    done(&mut s, "a", &json!({"x": 1}));
    assert_eq!(s.count("agentq.event WHERE event_kind LIKE 'step.%'"), 0);
    s.call("fn_config_set('flow.step_events', 'true')");
    done(&mut s, "b", &json!({"x": 1}));
    let event = s.json("SELECT payload FROM agentq.event WHERE event_kind = 'step.succeeded'", &[]);
    assert_eq!((&event["step"], &event["kind"], &event["result"]), (&json!("b"), &json!("b"), &json!({"x": 1})));
    db.assert_sound();
}

#[test]
fn a_mission_is_approved_until_a_worker_claims_its_first_step() {
    let db = database();
    let mut s = db.session();
    let inner = json!({"steps": [{"name": "x", "kind": "x"}]});
    let text = json!({"steps": [{"name": "m", "mission": inner}, {"name": "b", "kind": "b", "depends_on": ["m"]}]});
    let started = s.call(&format!("fn_mission_start('{text}')"));
    assert_eq!(started["status"], "approved");
    let mission = started["mission_id"].as_str().unwrap().to_owned();
    let see = format!(
        "SELECT concat_ws(' ', status, started_at IS NOT NULL) FROM agentq.v_mission WHERE mission_id = '{mission}'"
    );
    assert_eq!(s.text(&see), "approved f");
    let held = claim(&mut s, "x");
    assert_eq!(s.text(&see), "running t");
    let first = format!("SELECT started_at FROM agentq.v_mission WHERE mission_id = '{mission}'");
    let begun = s.text(&first);
    assert_eq!(begun, s.text(&format!("SELECT picked_at FROM agentq.job_queue WHERE job_id = '{}'", id(&held))));
    // The claim that counts is the first, whatever becomes of it.
    s.call(&format!("fn_job_release('{}', 'bob')", id(&held)));
    let held = claim(&mut s, "x");
    assert_eq!((s.text(&see), s.text(&first)), ("running t".to_owned(), begun.clone()));
    s.call(&format!("fn_job_ack('{}', 'bob')", id(&held)));
    done(&mut s, "b", &json!(1));
    assert_eq!((s.text(&see), s.text(&first)), ("succeeded t".to_owned(), begun));
    // What was done stays to be seen.
    let step = s.json(
        &format!("SELECT to_jsonb(v) FROM agentq.v_mission_step v WHERE mission_id = '{mission}' AND name = 'b'"),
        &[],
    );
    assert!(!step["reserved_at"].is_null() && step["updated_at"] == step["ended_at"], "{step}");
    db.assert_sound();
}

#[test]
fn updated_at_of_a_mission_follows_what_happens_to_it() {
    let db = database();
    let mut s = db.session();
    let mission = start(&mut s, &template(&[("a", &[]), ("b", &["a"])]), "");
    let at = format!("SELECT updated_at FROM agentq.v_mission WHERE mission_id = '{mission}'");
    let mut last = s.text(&at);
    let mut moves = |s: &mut agentq_tests::Session, what: &str| {
        let now = s.text(&at);
        assert_ne!(now, last, "{what}");
        last = now;
    };
    s.call(&format!("fn_mission_pause('{mission}')"));
    moves(&mut s, "a pause");
    s.call(&format!("fn_mission_resume('{mission}')"));
    moves(&mut s, "its end");
    done(&mut s, "a", &json!(1));
    moves(&mut s, "the end of a step");
    let held = claim(&mut s, "b");
    let step = "SELECT updated_at FROM agentq.v_mission_step WHERE name = 'b'";
    let before = s.text(step);
    s.call(&format!("fn_job_heartbeat('{}', 'bob')", id(&held)));
    assert_ne!(s.text(step), before, "a heartbeat");
    s.call(&format!("fn_mission_cancel('{mission}')"));
    moves(&mut s, "a cancel");
}

#[test]
fn an_executor_names_its_run_and_says_what_it_likes_about_it() {
    let db = database();
    let mut s = db.session();
    start(&mut s, &template(&[("a", &[])]), "");
    let job = id(&claim(&mut s, "a"));
    s.call(&format!("fn_job_start('{job}', 'bob', p_run_id => 'claw-17', p_meta => '{{\"model\": \"m\"}}')"));
    s.call(&format!("fn_job_start('{job}', 'bob', p_meta => '{{\"model\": \"n\"}}')"));
    let runs = "SELECT concat_ws(' ', run_id, status, meta->>'model', meta->>'lease_owner') FROM agentq.v_action_run ORDER BY started_at";
    assert_eq!(s.texts(runs), ["claw-17 started n bob"]);
    s.call(&format!("fn_job_release('{job}', 'bob')"));
    assert_eq!(s.texts(runs), ["claw-17 failed n bob"]);
    let job = id(&claim(&mut s, "a"));
    s.call(&format!("fn_job_start('{job}', 'bob', p_run_id => 'claw-18')"));
    s.call(&format!("fn_job_ack('{job}', 'bob')"));
    assert_eq!(s.texts(runs), ["claw-17 failed n bob", "claw-18 succeeded bob"]);
    // Who says nothing has the job and the number of the attempt.
    start(&mut s, &template(&[("b", &[])]), "");
    let job = id(&claim(&mut s, "b"));
    assert_eq!(s.text("SELECT run_id FROM agentq.v_action_run WHERE step = 'b'"), format!("{job}#1"));
    db.assert_sound();
}

#[test]
fn steps_that_nobody_comes_on_with_are_taken_back_when_somebody_asks() {
    let db = database();
    let mut s = db.session();
    start(&mut s, &template(&[("a", &[]), ("b", &[])]), "");
    let plain = s.enqueue("plain");
    for kind in ["a", "b", "plain"] {
        s.call(&format!("fn_job_claim('bob', '{kind}', 86400)"));
    }
    s.shift_clock(1800);
    let b = s.text("SELECT job_id FROM agentq.job_queue WHERE job_kind = 'b'");
    s.call(&format!("fn_step_begin('{b}', 'bob', 'one', '{{}}')"));
    s.call(&format!("fn_step_complete('{b}', 'bob', 'one')"));
    s.shift_clock(3000);
    assert_eq!(s.call("fn_mission_recover_stale(60)")["recovered"], 0);
    assert_eq!(s.call("fn_mission_recover_stale(40)")["recovered"], 1, "b has come on, and the plain job is no step");
    let states = "SELECT string_agg(job_kind || ' ' || state, ', ' ORDER BY job_kind) FROM agentq.job_queue";
    assert_eq!(s.text(states), "a queued, b leased, plain leased");
    assert_eq!(s.text("SELECT error_class FROM agentq.job_attempt WHERE outcome = 'lease_expired'"), "stalled");
    assert!(!plain.is_empty());
    let failure = s.fails("SELECT agentq.fn_mission_recover_stale(0)");
    assert!(failure.code == "22023" && failure.message.contains("p_minutes"), "{failure:?}");
}
