//! Short ways to say what the tests of the loop need.

use agentq_tests::{Session, Value, json, text};

/// Writes an event down and returns its id.
#[track_caller]
pub fn emit(s: &mut Session, kind: &str, payload: Value, options: Value) -> String {
    let sql = "SELECT agentq.fn_event_emit($1, 'somebody', $2, $3)";
    text(&s.json(sql, &[&kind, &payload, &options]), "event_id")
}

/// Sets a policy.
#[track_caller]
pub fn policy(s: &mut Session, key: &str, value: Value) {
    let answer = s.json("SELECT agentq.fn_policy_set($1, $2)", &[&key, &value]);
    assert_eq!(answer["ok"], true, "{answer}");
}

/// A pattern with one step, and whatever else is said.
pub fn pattern(id: &str, kind: &str, more: Value) -> Value {
    let mut pattern =
        json!({"id": id, "type": kind, "template": {"title": id, "steps": [{"name": "one", "kind": "noop"}]}});
    if let (Some(pattern), Value::Object(more)) = (pattern.as_object_mut(), more) {
        pattern.extend(more);
    }
    pattern
}

/// One turn of the loop; every part of it must go well.
#[track_caller]
pub fn tick(s: &mut Session) -> Value {
    let answer = s.call("fn_ops_tick()");
    assert_eq!((answer["ok"].clone(), answer["code"].clone()), (json!(true), json!("ticked")), "{answer}");
    answer
}

/// Proposes, and insists on the code of the answer.
#[track_caller]
pub fn propose(s: &mut Session, code: &str, key: &str, source: &str, template: &Value) -> Value {
    let answer = s.json("SELECT agentq.fn_proposal_create($1, $2, $3)", &[&key, &source, template]);
    assert_eq!(answer["code"], code, "{answer}");
    assert_eq!(answer["ok"], json!(code != "rejected"), "{answer}");
    answer
}

/// A template of these kinds.
pub fn template(kinds: &[&str]) -> Value {
    let step = |(number, kind): (usize, &&str)| json!({"name": format!("step{number}"), "kind": kind});
    json!({"title": "test", "steps": kinds.iter().enumerate().map(step).collect::<Vec<_>>()})
}

/// Lets everything of these kinds through by itself.
#[track_caller]
pub fn approve_all(s: &mut Session, kinds: &[&str]) {
    policy(s, "auto_approve", json!({"enabled": true, "allowed_step_kinds": kinds}));
}

/// The reactions: pattern, status and reason of each, in order.
#[track_caller]
pub fn reactions(s: &mut Session) -> Vec<String> {
    s.texts("SELECT concat_ws(' ', pattern, status, reason) FROM agentq.reaction ORDER BY event_seq, pattern")
}

/// The statement must be refused with this SQLSTATE and message, and a hint where it is agentq's own, and must write nothing.
#[track_caller]
pub fn refused(s: &mut Session, sql: &str, code: &str, message: &str) {
    let failure = agentq_tests::refused(s, sql, code, message, "");
    assert!(!failure.hint.is_empty() || code == "23514", "{sql}: {failure:?}");
}

/// Lets committed events get their place in the log: a turn in a transaction leaves that to others.
#[track_caller]
pub fn seal(s: &mut Session) {
    if s.count("pg_proc WHERE proname = 'fn_event_read'") > 0 {
        // Who reads at the end of the log seals what has no place yet.
        s.call("fn_event_read(1000000000000, 1)");
    }
}
