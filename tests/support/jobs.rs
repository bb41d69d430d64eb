//! What tests do with jobs again and again.

use crate::answers::{expect, id, text};
use crate::database::{Database, Session};
use crate::patience::{eventually, sleeping_calls, sooner_than, timed};
use serde_json::Value;
use std::thread::JoinHandle;
use std::time::Duration;

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

/// Starts a claim of 'cat' with these further arguments, in a session of its own, and returns when it waits.
#[track_caller]
pub fn waiting_claim(db: &Database<'_>, more: &str) -> JoinHandle<(Value, Duration)> {
    let (mut waiting, mut look) = (db.session(), db.session());
    let others = sleeping_calls(&mut look);
    let call = format!("fn_job_claim('cat', p_wait => '60 s'{more})");
    let claim = std::thread::spawn(move || timed(|| waiting.call(&call)));
    eventually("the claim waits", || sleeping_calls(&mut look) > others || claim.is_finished());
    claim
}

/// Each waiting claim gets a job, and one at least because it was told of it. Where no engine runs, a claim looks by itself
/// one second after it has begun to wait. Between two tries every job is done.
#[track_caller]
pub fn is_told(db: &Database<'_>, mut once: impl FnMut() -> JoinHandle<(Value, Duration)>) {
    let mut s = db.session();
    sooner_than(Duration::from_millis(900), "it was told, and did not just look again", || {
        let (answer, took) = once().join().expect("the claim ends");
        assert_eq!(answer["code"], "claimed", "{answer}");
        s.run("SELECT agentq.fn_job_cancel(job_id) FROM agentq.job_queue WHERE finished_at IS NULL AND lease_owner IS NULL");
        s.run("SELECT agentq.fn_job_ack(job_id, lease_owner) FROM agentq_internal.job_lease");
        took
    });
}
