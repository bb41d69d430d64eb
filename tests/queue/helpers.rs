//! Short ways to say what several topics need.

use agentq_tests::{Session, Value};
use std::time::{Duration, Instant};

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

/// Every row that agentq keeps: two of these are equal if nothing was written in between.
#[track_caller]
pub fn everything(session: &mut Session) -> String {
    const TABLES: &[&str] = &[
        "job",
        "job_ready",
        "job_waiting",
        "job_lease",
        "job_done",
        "job_attempt_log",
        "job_key",
        "job_checkpoint",
        "job_dead_letter",
        "queue_heartbeat",
        "queue",
        "config",
        "error_class",
        "retry_policy",
        "job_deadline",
        "job_line",
        "limit_rule",
        "job_order",
        "job_throttle",
        "limit_gauge",
        "budget",
        "budget_spent",
        "budget_use",
        "job_step",
        "action",
        "signal",
        "signal_wait",
        "signal_channel",
    ];
    let rows: Vec<String> = TABLES
        .iter()
        .map(|t| format!("SELECT '{t} ' || row.*::text AS line FROM {} row", session.qualified(t)))
        .collect();
    session.text(&format!("SELECT string_agg(line, E'\\n' ORDER BY line) FROM ({}) t", rows.join(" UNION ALL ")))
}

/// The statement must be refused with this SQLSTATE, message and HINT, and must write nothing.
#[track_caller]
pub fn refused(session: &mut Session, statement: &str, code: &str, message: &str, hint: &str) {
    let before = everything(session);
    let failure = session.fails(statement);
    assert_eq!(failure.code, code, "{statement}: {failure:?}");
    assert!(failure.message.contains(message), "{statement}: {failure:?}");
    assert!(failure.hint.contains(hint), "{statement}: {failure:?}");
    assert_eq!(everything(session), before, "{statement} wrote something");
}

/// Calls a function with something that makes no sense: it says so, and writes nothing.
#[track_caller]
pub fn refuse(session: &mut Session, call: &str, message: &str) {
    refused(session, &format!("SELECT agentq.{call}"), "22023", message, "");
}

/// Asks again and again until it holds. The bound is there to end a broken run, not to time it.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "this never happened: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until some claim of this database sleeps in wait of a job.
#[track_caller]
pub fn until_waiting(session: &mut Session) {
    eventually("a claim waits", || {
        session.count(
            "pg_stat_activity WHERE datname = current_database() AND state = 'active' AND wait_event = 'Extension'
             AND query LIKE '%p_wait%' AND pid <> pg_backend_pid()",
        ) > 0
    });
}

/// Waits until some session of this database waits for another one's lock.
#[track_caller]
pub fn until_someone_waits(session: &mut Session) {
    eventually("a session waits for a lock", || {
        session.count("pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
    });
}
