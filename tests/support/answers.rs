//! What a function of agentq answers: its code, and the fields that a test goes on with.

use crate::database::Session;
use serde_json::Value;

/// The id of the job that an answer is about.
#[track_caller]
pub fn id(answer: &Value) -> String {
    text(answer, "job_id")
}

/// The lease token of a claim.
#[track_caller]
pub fn token(answer: &Value) -> String {
    text(answer, "lease_token")
}

/// A field of an answer that must be a text.
#[track_caller]
pub fn text(answer: &Value, field: &str) -> String {
    answer[field].as_str().unwrap_or_else(|| panic!("no {field} in {answer}")).to_owned()
}

/// Calls a function and insists on the code of its answer.
#[track_caller]
pub fn expect(session: &mut Session, code: &str, call: &str) -> Value {
    let answer = session.call(call);
    assert_eq!(answer["code"], code, "{call}: {answer}");
    let refusals = ["lease_lost", "gate_closed", "already_finished", "refused", "not_finished"];
    assert_eq!(answer["ok"], Value::Bool(!refusals.contains(&code)), "{call}: {answer}");
    answer
}
