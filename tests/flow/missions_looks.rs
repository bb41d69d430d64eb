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
