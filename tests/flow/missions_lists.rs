//! Steps that work through a list: a job for each item, and their results together.

use super::{assert_whole, claim, done, failed, start, status, steps};
use agentq_tests::{Session, Value, database, expect, id, json};

fn text(for_each: Value) -> Value {
    json!({"steps": [{"name": "find", "kind": "find"},
        {"name": "read", "kind": "read", "depends_on": ["find"], "for_each": for_each, "on_failure": "continue",
         "params": {"url": {"$from": "$item.url"}, "all": {"$from": "$.find.count"}}},
        {"name": "sum", "kind": "sum", "depends_on": ["read"], "params": {"list": {"$from": "$.read"}}}]})
}

#[test]
fn each_item_is_a_job_and_the_results_come_in_order() {
    let db = database();
    let mut s = db.session();
    for path in ["$.find.urls", "$.find.urls[*]"] {
        let mission = start(&mut s, &text(json!(path)), "");
        done(&mut s, "find", &json!({"urls": [{"url": "u0"}, {"url": "u1"}, {"url": "u2"}], "count": 3}));
        assert_eq!(steps(&mut s, &mission), "find succeeded, read queued, sum waiting");
        let jobs = s.call("fn_job_claim_batch('bob', 10, 'read')");
        let jobs = jobs["jobs"].as_array().unwrap().clone();
        assert_eq!(jobs.len(), 3, "{path}");
        assert_eq!(jobs[1]["payload_json"], json!({"url": "u1", "all": 3, "item": {"url": "u1"}, "index": 1}));
        for job in jobs.iter().rev() {
            assert_eq!(steps(&mut s, &mission), "find succeeded, read running, sum waiting");
            let index = &job["payload_json"]["index"];
            expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob', '{{\"n\": {index}}}')", id(job)));
            assert_whole(&mut s);
        }
        let sum = claim(&mut s, "sum");
        assert_eq!(sum["payload_json"], json!({"list": [{"n": 0}, {"n": 1}, {"n": 2}]}));
        expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&sum)));
        assert_eq!(status(&mut s, &mission), "succeeded");
    }
    db.assert_sound();
}

#[test]
fn a_list_needs_all_of_its_items_or_as_many_as_it_says() {
    let db = database();
    let mut s = db.session();
    for (join, wanted) in [
        (json!("all"), "find succeeded, read failed, sum skipped"),
        (json!({"quorum": 3}), "find succeeded, read failed, sum skipped"),
        (json!({"quorum": 2}), "find succeeded, read succeeded, sum queued"),
        (json!("any"), "find succeeded, read succeeded, sum queued"),
    ] {
        let mission = start(&mut s, &text(json!({"in": "$.find.urls", "join": join})), "");
        done(&mut s, "find", &json!({"urls": [1, 2, 3]}));
        failed(&mut s, "read");
        done(&mut s, "read", &json!("b"));
        done(&mut s, "read", &json!("c"));
        assert_eq!(steps(&mut s, &mission), wanted, "{join}");
        let row = s.json(
            &format!(
                "SELECT to_jsonb(v) FROM agentq.v_mission_step v WHERE mission_id = '{mission}' AND name = 'read'"
            ),
            &[],
        );
        assert_eq!(row["result"], json!([null, "b", "c"]));
        let error = row["last_error"].as_str().unwrap_or_default();
        assert_eq!(error.contains("2 of 3 items succeeded"), wanted.contains("failed"), "{row}");
        if wanted.contains("sum queued") {
            done(&mut s, "sum", &json!(null));
        }
        assert_eq!(status(&mut s, &mission), "succeeded");
        assert_whole(&mut s);
    }
    db.assert_sound();
}

#[test]
fn an_empty_list_is_done_at_once_and_one_that_is_too_long_fails() {
    let db = database();
    let mut s = db.session();
    let mission = start(&mut s, &text(json!("$.find.urls")), "");
    done(&mut s, "find", &json!({"urls": []}));
    assert_eq!(steps(&mut s, &mission), "find succeeded, read succeeded, sum queued");
    assert_eq!(claim(&mut s, "sum")["payload_json"], json!({"list": []}));
    let mission = start(&mut s, &text(json!({"in": "$.find.urls", "join": "any"})), "");
    done(&mut s, "find", &json!({"urls": []}));
    assert_eq!(steps(&mut s, &mission), "find succeeded, read failed, sum skipped");
    let mission = start(&mut s, &text(json!("$.find.urls")), "");
    done(&mut s, "find", &json!({"urls": vec![0; 10_001]}));
    assert_eq!(steps(&mut s, &mission), "find succeeded, read failed, sum skipped");
    assert_eq!(status(&mut s, &mission), "succeeded");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_thousand_items_end_with_the_last_of_them() {
    let db = database();
    let mut s = db.session();
    let mission = start(&mut s, &text(json!("$.find.urls")), "");
    done(&mut s, "find", &json!({"urls": (0..1000).collect::<Vec<_>>()}));
    let jobs = s.call("fn_job_claim_batch('bob', 1000, 'read')");
    let ids: Vec<Value> = jobs["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| json!({"job_id": job["job_id"], "result": job["payload_json"]["index"]}))
        .collect();
    assert_eq!(ids.len(), 1000);
    s.call(&format!("fn_job_ack_batch('bob', '{}')", json!(ids[1..])));
    assert_eq!(steps(&mut s, &mission), "find succeeded, read running, sum waiting");
    assert_whole(&mut s);
    s.call(&format!("fn_job_ack_batch('bob', '{}')", json!(ids[..1])));
    let sum = claim(&mut s, "sum");
    assert_eq!(sum["payload_json"]["list"].as_array().unwrap().len(), 1000);
    assert_eq!(sum["payload_json"]["list"][999], json!(999));
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_cancel_takes_the_items_back_that_nobody_holds() {
    let db = database();
    let mut s = db.session();
    let mission = start(&mut s, &text(json!("$.find.urls")), "");
    done(&mut s, "find", &json!({"urls": [1, 2, 3]}));
    let held = claim(&mut s, "read");
    expect(&mut s, "cancelling", &format!("fn_mission_cancel('{mission}')"));
    assert_eq!(s.texts("SELECT status FROM agentq.mission_item ORDER BY item"), ["queued", "cancelled", "cancelled"]);
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&held)));
    assert_eq!(status(&mut s, &mission), "cancelled");
    assert_eq!(steps(&mut s, &mission), "find succeeded, read cancelled, sum skipped");
    // With none held, it is over at once.
    let mission = start(&mut s, &text(json!("$.find.urls")), "");
    done(&mut s, "find", &json!({"urls": [1, 2, 3]}));
    expect(&mut s, "cancelled", &format!("fn_mission_cancel('{mission}')"));
    assert_eq!(steps(&mut s, &mission), "find succeeded, read cancelled, sum cancelled");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_list_that_is_not_there_fails_the_step_and_an_empty_one_does_not() {
    let db = database();
    let mut s = db.session();
    let empty = [
        ("$.find.urls", json!({"urls": []})),
        ("$.find.urls[*]", json!({"urls": []})),
        ("lax $.find.urls[*].url", json!({"urls": []})),
        ("$.find.urls.url", json!({"urls": []})),
        ("$.find.urls[*] ? (@.stars > 3)", json!({"urls": [{"stars": 1}]})),
    ];
    for (path, found) in empty {
        let mission = start(&mut s, &text(json!(path)), "");
        done(&mut s, "find", &found);
        assert_eq!(steps(&mut s, &mission), "find succeeded, read succeeded, sum queued", "{path} in {found}");
        done(&mut s, "sum", &json!(null));
    }
    let missing = [
        ("$.find.urls", json!({"links": []})),
        ("$.find.urls[*]", json!({"links": [1]})),
        ("$.find.urls[*].url", json!({})),
        ("$.find.urls[2]", json!({"urls": [1]})),
        ("$.find.urls", json!({"urls": null})),
        ("$.find.urls", json!(null)),
    ];
    for (path, found) in missing {
        let mission = start(&mut s, &text(json!(path)), "");
        done(&mut s, "find", &found);
        assert_eq!(steps(&mut s, &mission), "find succeeded, read failed, sum skipped", "{path} in {found}");
        let error = s.text(&format!(
            "SELECT last_error FROM agentq.v_mission_step WHERE mission_id = '{mission}' AND name = 'read'"
        ));
        assert!(error.starts_with(&format!("for_each: {path} ")), "{error}");
    }
    assert_whole(&mut s);
}

/// A list whose items are missions of two steps.
fn of_missions(join: Value) -> Value {
    let inner = json!({"steps": [{"name": "get", "kind": "get", "params": {"url": {"$from": "$.input.item.url"}}},
        {"name": "put", "kind": "put", "depends_on": ["get"], "params": {"n": {"$from": "$.input.index"}, "got": {"$from": "$.get"}}}]});
    json!({"steps": [{"name": "find", "kind": "find"},
        {"name": "each", "mission": inner, "depends_on": ["find"], "for_each": {"in": "$.find.urls", "join": join}},
        {"name": "sum", "kind": "sum", "depends_on": ["each"], "params": {"list": {"$from": "$.each"}}}]})
}

fn found(s: &mut Session, count: usize) -> Value {
    let urls: Vec<Value> = (0..count).map(|n| json!({"url": format!("u{n}")})).collect();
    let found = json!({"urls": urls});
    done(s, "find", &found);
    found
}

#[test]
fn each_item_may_be_a_mission_and_their_results_come_in_order() {
    let db = database();
    let mut s = db.session();
    let mission = start(&mut s, &of_missions(json!("all")), "");
    found(&mut s, 3);
    assert_eq!(steps(&mut s, &mission), "find succeeded, each running, sum waiting");
    assert_eq!(s.count("agentq.mission"), 4);
    // All at once, in one transaction, so that several items end together.
    let gets = s.call("fn_job_claim_batch('bob', 10, 'get')")["jobs"].as_array().unwrap().clone();
    let payloads: Vec<&Value> = gets.iter().map(|job| &job["payload_json"]["url"]).collect();
    assert_eq!(payloads, [&json!("u0"), &json!("u1"), &json!("u2")]);
    let acks: Vec<Value> =
        gets.iter().map(|job| json!({"job_id": job["job_id"], "result": job["payload_json"]["url"]})).collect();
    assert_eq!(s.call(&format!("fn_job_ack_batch('bob', $a${}$a$)", json!(acks)))["acked"], 3);
    let puts = s.call("fn_job_claim_batch('bob', 10, 'put')")["jobs"].as_array().unwrap().clone();
    assert_eq!(puts[1]["payload_json"], json!({"n": 1, "got": "u1"}));
    let acks: Vec<Value> =
        puts.iter().rev().map(|job| json!({"job_id": job["job_id"], "result": job["payload_json"]["n"]})).collect();
    assert_eq!(s.call(&format!("fn_job_ack_batch('bob', $a${}$a$)", json!(acks)))["acked"], 3);
    assert_whole(&mut s);
    assert_eq!(claim(&mut s, "sum")["payload_json"], json!({"list": [{"put": 0}, {"put": 1}, {"put": 2}]}));
    db.assert_sound();
}

#[test]
fn a_list_of_missions_needs_as_many_as_it_says_and_stops_with_the_mission_around_it() {
    let db = database();
    let mut s = db.session();
    let mission = start(&mut s, &of_missions(json!({"quorum": 1})), "");
    found(&mut s, 2);
    failed(&mut s, "get");
    done(&mut s, "get", &json!("u1"));
    done(&mut s, "put", &json!(1));
    assert_eq!(steps(&mut s, &mission), "find succeeded, each succeeded, sum queued");
    assert_whole(&mut s);
    let mission = start(&mut s, &of_missions(json!("all")), "");
    found(&mut s, 2);
    expect(&mut s, "cancelled", &format!("fn_mission_cancel('{mission}')"));
    assert_eq!(s.count("agentq.mission WHERE completed_at IS NULL"), 1, "the first one goes on");
    assert_eq!(steps(&mut s, &mission), "find succeeded, each cancelled, sum cancelled");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn an_item_that_is_a_mission_is_tried_again_in_place() {
    let db = database();
    let mut s = db.session();
    let mission = start(&mut s, &of_missions(json!("all")), "");
    found(&mut s, 2);
    failed(&mut s, "get");
    done(&mut s, "get", &json!("u1"));
    done(&mut s, "put", &json!(1));
    assert_eq!(status(&mut s, &mission), "failed");
    let inner = s.text("SELECT mission_id FROM agentq.mission WHERE status = 'failed' AND parent_item = 0");
    expect(&mut s, "retried", &format!("fn_mission_retry('{inner}')"));
    assert_eq!(steps(&mut s, &mission), "find succeeded, each running, sum waiting");
    assert_whole(&mut s);
    done(&mut s, "get", &json!("u0"));
    done(&mut s, "put", &json!(0));
    assert_eq!(claim(&mut s, "sum")["payload_json"], json!({"list": [{"put": 0}, {"put": 1}]}));
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn more_missions_than_may_begin_at_once_fail_the_step_and_not_its_mission_s_worker() {
    let db = database();
    let mut s = db.session();
    let mission = start(&mut s, &of_missions(json!("all")), "");
    let many: Vec<u32> = (0..5_000).collect();
    let inner: Vec<Value> = (0..5).map(|n| json!({"name": format!("s{n}"), "kind": "x"})).collect();
    let wide = json!({"steps": [{"name": "find", "kind": "find"},
        {"name": "each", "mission": {"steps": inner}, "depends_on": ["find"], "for_each": "$.find.urls"}]});
    let too_many = start(&mut s, &wide, "");
    found(&mut s, 1);
    done(&mut s, "find", &json!({"urls": many}));
    assert_eq!(status(&mut s, &too_many), "failed");
    let error = s.text(&format!("SELECT last_error FROM agentq.mission WHERE mission_id = '{too_many}'"));
    assert!(error.contains("5000 missions have 25000 steps"), "{error}");
    assert_eq!(steps(&mut s, &mission), "find succeeded, each running, sum waiting");
    assert_whole(&mut s);
    db.assert_sound();
}
