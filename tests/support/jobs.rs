//! What tests do with jobs again and again.

use crate::answers::{expect, id, text};
use crate::database::Session;
use serde_json::Value;

/// Claims a job, which must be there.
#[track_caller]
pub fn claimed(session: &mut Session, owner: &str) -> Value {
    expect(session, "claimed", &format!("fn_job_claim('{owner}')"))
}

/// Claims until nothing is left and returns one field of each claim, in order.
#[track_caller]
pub fn drain(session: &mut Session, claim: &str, field: &str) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let answer = session.call(claim);
        if answer["code"] == "empty" {
            return found;
        }
        found.push(text(&answer, field));
    }
}

/// Enqueues one job of each kind, in this order, with these further arguments.
#[track_caller]
pub fn enqueue_all(session: &mut Session, kinds: &[&str], more: &str) -> Vec<String> {
    kinds.iter().map(|k| id(&session.call(&format!("fn_job_enqueue('{k}' {more})")))).collect()
}

/// The attempts at a job: number, owner, outcome (or "held") and error of each.
#[track_caller]
pub fn attempts(session: &mut Session, job: &str) -> Vec<String> {
    session.texts(&format!(
        "SELECT concat_ws(' ', attempt_no, lease_owner, coalesce(outcome, 'held'), error)
         FROM agentq.job_attempt WHERE job_id = '{job}' ORDER BY attempt_no"
    ))
}
