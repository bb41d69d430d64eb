//! Policies: set, versioned, audited, and refused with the path of what is wrong.

use crate::loops::refused;
use agentq_tests::{database, expect, json, until_someone_waits};

#[test]
fn what_nobody_has_set_holds_its_default_as_version_zero() {
    let db = database();
    let mut s = db.session();
    let caps = expect(&mut s, "found", "fn_policy_get('proposal_caps')");
    assert_eq!((caps["version"].clone(), caps["value"]["daily_limit"].clone()), (json!(0), json!(1000)));
    let worker = expect(&mut s, "found", "fn_policy_get('worker_policy', 0)");
    assert_eq!(worker["value"], json!({"lease_minutes": 5, "max_retries": 3, "stale_minutes": 30}));
    assert_eq!(expect(&mut s, "found", "fn_policy_history('auto_approve')")["versions"], json!([]));
    assert_eq!(s.count("agentq.policy"), 0);
}

#[test]
fn every_change_is_a_version_that_is_kept_and_audited() {
    let db = database();
    let mut s = db.session();
    let first = expect(&mut s, "set", "fn_policy_set('proposal_caps', '{\"daily_limit\": 5}', 'a start')");
    assert_eq!(first["version"], 1);
    assert_eq!(expect(&mut s, "unchanged", "fn_policy_set('proposal_caps', '{\"daily_limit\": 5}')")["version"], 1);
    assert_eq!(expect(&mut s, "set", "fn_policy_set('proposal_caps', '{\"daily_limit\": 7}', 'more')")["version"], 2);
    assert_eq!(expect(&mut s, "found", "fn_policy_get('proposal_caps')")["value"], json!({"daily_limit": 7}));
    let old = expect(&mut s, "found", "fn_policy_get('proposal_caps', 1)");
    assert_eq!((old["value"].clone(), old["reason"].clone()), (json!({"daily_limit": 5}), json!("a start")));
    let history = expect(&mut s, "found", "fn_policy_history('proposal_caps', 10)");
    let versions: Vec<i64> =
        history["versions"].as_array().unwrap().iter().map(|version| version["version"].as_i64().unwrap()).collect();
    assert_eq!(versions, [2, 1]);
    let told = "SELECT purpose || ' ' || subject || ' ' || (payload->>'version') || ' ' || (payload->>'reason')
        FROM agentq.event WHERE event_kind = 'policy.changed' ORDER BY event_id";
    assert_eq!(s.texts(told), ["audit proposal_caps 1 a start", "audit proposal_caps 2 more"]);
    // A key of one's own holds what it likes.
    assert_eq!(expect(&mut s, "set", "fn_policy_set('house.motto', '\"slow is smooth\"')")["version"], 1);
    assert_eq!(expect(&mut s, "found", "fn_policy_get('house.motto')")["value"], json!("slow is smooth"));
}

#[test]
fn a_change_that_is_rolled_back_leaves_no_version() {
    let db = database();
    let mut s = db.session();
    s.run("BEGIN");
    expect(&mut s, "set", "fn_policy_set('a', '1')");
    s.run("ROLLBACK");
    assert_eq!(s.count("agentq.policy_version"), 0);
    assert_eq!(s.count("agentq.event WHERE event_kind = 'policy.changed'"), 0);
    assert_eq!(expect(&mut s, "set", "fn_policy_set('a', '2')")["version"], 1);
}

#[test]
fn two_changes_at_once_are_two_versions() {
    let db = database();
    for key in ["fresh", "old"] {
        let (mut a, mut b) = (db.session(), db.session());
        if key == "old" {
            expect(&mut a, "set", "fn_policy_set('old', '0')");
        }
        let before = a.count(&format!("agentq.policy_version WHERE key = '{key}'"));
        a.run("BEGIN");
        a.call(&format!("fn_policy_set('{key}', '1')"));
        let call = format!("fn_policy_set('{key}', '2')");
        let other = std::thread::spawn(move || b.call(&call));
        until_someone_waits(&mut db.session());
        a.run("COMMIT");
        assert_eq!(other.join().expect("it answers")["version"], json!(before + 2));
        assert_eq!(a.text(&format!("SELECT value FROM agentq.policy WHERE key = '{key}'")), "2");
    }
}

#[test]
fn a_value_without_the_policys_shape_is_refused_with_its_path() {
    let db = database();
    let mut s = db.session();
    let pattern =
        |more: &str| format!(r#"[{{"id": "a", "type": "x", "template": {{"steps": [{{"kind": "k"}}]}}{more}}}]"#);
    for (key, value, message) in [
        ("proposal_caps", r#"{"daily_limit": "many"}"#.to_owned(), "proposal_caps.daily_limit must be a whole number"),
        ("proposal_caps", r#"{"hook": "nobody"}"#.to_owned(), "proposal_caps.hook: \"nobody\" is not the name"),
        ("auto_approve", r#"{"max_risk": "none"}"#.to_owned(), "auto_approve.max_risk must be one of low"),
        ("worker_policy", r#"{"lease": 5}"#.to_owned(), "worker_policy has the unknown key \"lease\""),
        ("agent_roles", r#"{"sage": "wise"}"#.to_owned(), "agent_roles.sage must be a JSON object"),
        ("reaction_matrix", "{}".to_owned(), "reaction_matrix must be a list"),
        ("reaction_matrix", pattern(r#", "when": "$.a >""#), "reaction_matrix[0].when: \"$.a >\" is not a path"),
        ("reaction_matrix", pattern(r#", "dedupe": "$.a[""#), "reaction_matrix[0].dedupe: \"$.a[\" is not a path"),
        ("reaction_matrix", pattern(r#", "probability": 1.5"#), "reaction_matrix[0].probability must be a number"),
        (
            "reaction_matrix",
            r#"[{"id": "a", "type": "x", "template": {"steps": [{"kind": "k", "params": {"a": {"$event": "$$"}}}]}}]"#
                .to_owned(),
            "reaction_matrix[0].template.steps[0].params.a: \"$$\" is not a path",
        ),
        (
            "reaction_matrix",
            r#"[{"id": "a", "type": "x", "template": {"title": "no steps"}}]"#.to_owned(),
            "reaction_matrix[0].template: ",
        ),
    ] {
        let sql = format!("SELECT agentq.fn_policy_set('{key}', '{value}')");
        refused(&mut s, &sql, "22023", message);
    }
    refused(&mut s, "SELECT agentq.fn_policy_set(NULL, '1')", "22004", "p_key must not be NULL");
    refused(&mut s, "SELECT agentq.fn_policy_set('a', NULL)", "22004", "p_value must not be NULL");
    refused(&mut s, "SELECT agentq.fn_policy_set(' ', '1')", "22023", "p_key must not be empty");
    refused(&mut s, "SELECT agentq.fn_policy_get('a')", "P0002", "there is no policy \"a\"");
    refused(&mut s, "SELECT agentq.fn_policy_get('auto_approve', 3)", "P0002", "has no version 3");
    refused(&mut s, "SELECT agentq.fn_policy_history('a')", "P0002", "there is no policy \"a\"");
    refused(&mut s, "SELECT agentq.fn_policy_history('auto_approve', 0)", "22023", "p_limit must be from 1");
    let hook = r#"SELECT agentq.fn_policy_set('proposal_caps', '{"hook": "public.nobody"}')"#;
    refused(&mut s, hook, "42883", "there is no function public.nobody(jsonb, text)");
    // Not even the owner can store it.
    let stored = "INSERT INTO agentq.policy VALUES ('auto_approve', '[]', 1, now(), 'me')";
    refused(&mut s, stored, "23514", "policy_value_check");
}

#[test]
fn the_versions_of_a_policy_are_never_changed() {
    let db = database();
    let mut s = db.session();
    expect(&mut s, "set", "fn_policy_set('a', '1')");
    for sql in [
        "UPDATE agentq.policy_version SET value = '2'",
        "DELETE FROM agentq.policy_version",
        "TRUNCATE agentq.policy_version",
    ] {
        refused(&mut s, sql, "23001", "never changed or removed");
    }
}

#[test]
fn what_a_worker_policy_leaves_out_keeps_its_default() {
    let db = database();
    let mut s = db.session();
    let whole = json!({"lease_minutes": 5, "max_retries": 1, "stale_minutes": 30});
    assert_eq!(expect(&mut s, "set", "fn_policy_set('worker_policy', '{\"max_retries\": 1}')")["value"], whole);
    assert_eq!(expect(&mut s, "found", "fn_policy_get('worker_policy')")["value"], whole);
}
