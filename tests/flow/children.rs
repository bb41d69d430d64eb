//! Jobs that a job starts and waits for.

use agentq_tests::{Session, Value, database, expect, id, json, refused, until_waiting};
use std::thread::spawn;

fn claim(s: &mut Session, kind: &str) -> Value {
    expect(s, "claimed", &format!("fn_job_claim('bob', '{kind}')"))
}

#[test]
fn a_parent_rests_until_its_child_has_ended_and_gets_its_result() {
    let db = database();
    let mut s = db.session();
    s.call("fn_job_enqueue('parent', p_options => '{\"trace_id\": \"t\", \"correlation_id\": \"c\"}')");
    let parent = id(&claim(&mut s, "parent"));
    let start = format!("fn_child_start('{parent}', 'bob', 'fetch', 'child', '{{\"url\": 1}}')");
    let started = expect(&mut s, "started", &start);
    assert_eq!(expect(&mut s, "already_started", &start)["child_job_id"], started["child_job_id"]);
    let wait = format!("fn_child_wait('{parent}', 'bob', 'fetch')");
    expect(&mut s, "waiting", &wait);
    let explained = s.call(&format!("fn_job_explain('{parent}')"));
    assert_eq!(explained["gates"][0]["gate"], "signal", "{explained}");
    let child = claim(&mut s, "child");
    assert_eq!((&child["job_id"], &child["payload_json"]), (&started["child_job_id"], &json!({"url": 1})));
    assert_eq!(
        (&child["trace_id"], &child["correlation_id"]),
        (&json!("t"), &json!("c")),
        "it belongs to what its parent does"
    );
    assert_eq!(s.claim("ann")["code"], "empty", "the parent rests");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob', '{{\"pages\": 3}}')", id(&child)));
    // The next holder asks for all of it again, and gets the same.
    assert_eq!(id(&claim(&mut s, "parent")), parent);
    assert_eq!(expect(&mut s, "already_started", &start)["child_job_id"], started["child_job_id"]);
    for _ in 0..2 {
        let over = s.call(&wait);
        assert_eq!(
            (&over["ok"], &over["code"], &over["result"]),
            (&json!(true), &json!("succeeded"), &json!({"pages": 3}))
        );
        assert_eq!((&over["child_job_id"], &over["name"]), (&started["child_job_id"], &json!("fetch")));
    }
    expect(&mut s, "succeeded", &format!("fn_job_ack('{parent}', 'bob')"));
    db.assert_sound();
}

#[test]
fn a_child_that_fails_tells_why_and_one_that_ends_first_is_not_waited_for() {
    let db = database();
    let mut s = db.session();
    s.enqueue("parent");
    let parent = id(&claim(&mut s, "parent"));
    s.call(&format!("fn_child_start('{parent}', 'bob', 'a', 'child')"));
    s.call(&format!("fn_child_start('{parent}', 'bob', 'b', 'child', p_options => '{{\"max_attempts\": 1}}')"));
    let (a, b) = (id(&claim(&mut s, "child")), id(&claim(&mut s, "child")));
    s.call(&format!("fn_job_ack('{a}', 'bob', '1')"));
    s.call(&format!("fn_job_fail_or_retry('{b}', 'bob', 'out of paper')"));
    assert_eq!(s.call(&format!("fn_child_wait('{parent}', 'bob', 'a')"))["result"], 1);
    let failed = s.call(&format!("fn_child_wait('{parent}', 'bob', 'b')"));
    assert_eq!(
        (&failed["ok"], &failed["code"], &failed["error"]),
        (&json!(false), &json!("dead_letter"), &json!("out of paper"))
    );
    // A wait may end by itself.
    s.call(&format!("fn_child_start('{parent}', 'bob', 'c', 'child')"));
    expect(&mut s, "waiting", &format!("fn_child_wait('{parent}', 'bob', 'c', '10 s')"));
    s.shift_clock(11);
    assert_eq!(id(&claim(&mut s, "parent")), parent);
    expect(&mut s, "timed_out", &format!("fn_child_wait('{parent}', 'bob', 'c', '10 s')"));
    let call = format!("SELECT agentq.fn_child_start('{parent}', 'bob', 'a', 'another')");
    refused(&mut s, &call, "22023", "child a", "");
    db.assert_sound();
}

#[test]
fn the_end_of_a_child_and_the_wait_for_it_never_miss_each_other() {
    let db = database();
    let mut s = db.session();
    for round in 0..20 {
        s.enqueue("parent");
        let parent = id(&claim(&mut s, "parent"));
        s.call(&format!("fn_child_start('{parent}', 'bob', 'x', 'child')"));
        let child = id(&claim(&mut s, "child"));
        let (mut other, ack) = (db.session(), format!("fn_job_ack('{child}', 'bob', '{round}')"));
        let ends = spawn(move || other.call(&ack));
        let first = s.call(&format!("fn_child_wait('{parent}', 'bob', 'x')"));
        assert_eq!(ends.join().unwrap()["code"], "succeeded");
        if first["code"] == "waiting" {
            assert_eq!(id(&claim(&mut s, "parent")), parent, "the parent was woken");
            assert_eq!(s.call(&format!("fn_child_wait('{parent}', 'bob', 'x')"))["result"], round);
        } else {
            assert_eq!(first["result"], round);
        }
        s.call(&format!("fn_job_ack('{parent}', 'bob')"));
    }
    db.assert_sound();
}

#[test]
fn a_mission_is_waited_for_and_gives_its_result() {
    let db = database();
    let mut s = db.session();
    let template = json!({"steps": [{"name": "a", "kind": "a"}, {"name": "b", "kind": "b", "depends_on": ["a"]}]});
    let started = s.call(&format!("fn_mission_start('{template}', '{{\"input\": {{\"topic\": \"bees\"}}}}')"));
    let mission = started["mission_id"].as_str().unwrap().to_owned();
    assert_eq!(s.call(&format!("fn_mission_wait('{mission}', '0')"))["code"], "pending");
    let (mut other, call) = (db.session(), format!("fn_mission_wait('{mission}', '60 s')"));
    let waits = spawn(move || other.call(&call));
    until_waiting(&mut s);
    for (kind, result) in [("a", 1), ("b", 2)] {
        let job = id(&claim(&mut s, kind));
        s.call(&format!("fn_job_ack('{job}', 'bob', '{result}')"));
    }
    let over = waits.join().unwrap();
    assert_eq!((&over["ok"], &over["code"], &over["result"]), (&json!(true), &json!("succeeded"), &json!({"b": 2})));
    let got = s.call(&format!("fn_mission_get('{mission}')"));
    assert_eq!((&got["input"], &got["result"]), (&json!({"topic": "bees"}), &json!({"b": 2})));
    // One that fails tells why.
    let mission = s.call(&format!("fn_mission_start('{template}')"))["mission_id"].as_str().unwrap().to_owned();
    let job = id(&claim(&mut s, "a"));
    s.call(&format!("fn_job_fail_or_retry('{job}', 'bob', 'boom', p_verdict => 'discard')"));
    let over = s.call(&format!("fn_mission_wait('{mission}')"));
    assert_eq!(
        (&over["ok"], &over["code"], &over["error"], &over["failed_step"]),
        (&json!(false), &json!("failed"), &json!("boom"), &json!("a"))
    );
    refused(&mut s, "SELECT agentq.fn_mission_wait(gen_random_uuid(), '0')", "P0002", "there is no mission", "");
    db.assert_sound();
}
