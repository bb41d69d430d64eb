//! The ends of an attempt that a person or a worker decides, other than an ack: failure, release, snooze, cancel
//! and dead letter.

use super::reap::Facts;
use super::settle::{self, Ending, Seized};
use super::tries;
use crate::base::actor::actor;
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, check_moment, timestamp};
use crate::base::ids::chance;
use crate::base::text::shorten;
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use crate::queue::answer;
use crate::queue::rules::Rulebook;
use crate::queue::storage::LockedLease;
use agentq_core::error_class::WORKER_DIED;
use agentq_core::retry::{self, After, Failure, LONGEST_WAIT, Reason, Verdict};
use agentq_core::{Refusal, input};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::{Value, json};

statements!("fail.sql": CANCEL_HELD);

fn state_answer(code: &str, state: &str, job_id: Uuid, more: Value) -> Jsonb {
    let mut answer = json!({"ok": true, "code": code, "job_id": job_id.to_string(), "state": state});
    if let (Some(answer), Value::Object(more)) = (answer.as_object_mut(), more) {
        answer.extend(more);
    }
    Jsonb::from_value(answer)
}

fn iso(at: Micros) -> Value {
    json!(timestamp(at))
}

/// Runs `end` on a job that this owner and token hold, or answers `lease_lost`.
fn with_held(
    job_id: Option<Uuid>,
    owner: Option<&str>,
    token: Option<Uuid>,
    end: impl FnOnce(&Db, &Rulebook, &LockedLease, Micros) -> Jsonb,
) -> Jsonb {
    answer::if_on(|rules| {
        let job_id = required("p_job_id", job_id);
        let owner = required("p_lease_owner", owner);
        db::answer(|db| match LockedLease::lock(db, job_id, Some(owner), token) {
            Some(held) => end(db, rules, &held, clock::now()),
            None => answer::lease_lost(db, job_id, Some(owner), token),
        })
    })
}

/// As the schema of the version before declares it.
#[pg_extern(sql = false)]
#[allow(clippy::too_many_arguments, reason = "the signature is public")]
fn fail_with_verdict(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_error: Option<&str>,
    p_error_class: Option<&str>,
    p_lease_token: Option<Uuid>,
    p_retry_after: Option<pgrx::datum::Interval>,
    p_verdict: Option<&str>,
) -> Jsonb {
    fail_with_detail(p_job_id, p_lease_owner, p_error, p_error_class, p_lease_token, p_retry_after, p_verdict, None)
}

#[pg_extern(name = "fn_job_fail_or_retry", security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::too_many_arguments, reason = "the signature is public")]
fn fail_with_detail(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_error: Option<&str>,
    p_error_class: default!(Option<&str>, "NULL"),
    p_lease_token: default!(Option<Uuid>, "NULL"),
    p_retry_after: default!(Option<pgrx::datum::Interval>, "NULL"),
    p_verdict: default!(Option<&str>, "'fail'"),
    p_error_detail: default!(Option<&str>, "NULL"),
) -> Jsonb {
    bounded!(fn_job_fail_or_retry: p_lease_owner, p_error, p_error_class, p_verdict, p_error_detail);
    let verdict = input::one_of("p_verdict", p_verdict.unwrap_or("fail"), &VERDICTS).or_raise();
    let retry_after = p_retry_after.map(|after| check_wait(&after).or_raise());
    let failed = Failed {
        error: p_error.unwrap_or_default(),
        class: p_error_class.map(|c| input::name("p_error_class", c, input::LONGEST_NAME).or_raise()),
        detail: p_error_detail.filter(|detail| !detail.trim().is_empty()),
        retry_after,
        verdict: match verdict {
            "cancel" => Verdict::Cancel,
            "discard" => Verdict::Discard,
            _ => Verdict::Fail,
        },
    };
    if verdict == "snooze" {
        let wait = required("p_retry_after", retry_after);
        return with_held(p_job_id, p_lease_owner, p_lease_token, |db, _, held, now| {
            give_back(db, held, "snoozed", now + (wait * 1e6) as i64, now)
        });
    }
    fail(required("p_job_id", p_job_id), required("p_lease_owner", p_lease_owner), p_lease_token, &failed)
}

const VERDICTS: [&str; 4] = ["fail", "cancel", "discard", "snooze"];

/// Seconds that a worker asks to wait.
fn check_wait(wait: &pgrx::datum::Interval) -> Result<f64, Refusal> {
    let seconds = wait.as_micros() as f64 / 1e6;
    if (0.0..=LONGEST_WAIT).contains(&seconds) {
        return Ok(seconds);
    }
    Err(Refusal::new(
        format!("p_retry_after must be from 0 to 3650 days, but is {wait}"),
        "Say how long from now the job is to wait, as in interval '30 seconds'.",
    ))
}

/// What a worker says of an attempt that did not succeed.
pub struct Failed<'a> {
    pub error: &'a str,
    pub class: Option<&'a str>,
    /// A stack, or what else is to be known of it.
    pub detail: Option<&'a str>,
    pub retry_after: Option<f64>,
    pub verdict: Verdict,
}

impl<'a> Failed<'a> {
    pub fn with(error: &'a str, class: Option<&'a str>) -> Self {
        Failed { error, class, detail: None, retry_after: None, verdict: Verdict::Fail }
    }
}

/// Ends an attempt as failed: the job waits for its next try, or ends.
pub fn fail(job_id: Uuid, owner: &str, token: Option<Uuid>, failed: &Failed<'_>) -> Jsonb {
    let error = if failed.error.trim().is_empty() { "no error was given" } else { shorten(failed.error) };
    with_held(Some(job_id), Some(owner), token, |db, rules, held, now| {
        let attempts = held.attempts + 1;
        let class = rules.policies.class(failed.class);
        // A class that the worker has not named stays without a name.
        let named = failed.class.map(|_| class.name.as_str());
        let ending = Ending {
            outcome: "failed",
            error: Some(error),
            error_class: named,
            error_detail: failed.detail,
            costs: 1,
            ..Ending::default()
        };
        let failure = Failure {
            failures: attempts,
            max_attempts: held.max_attempts,
            cancel_requested: held.cancel_requested,
            verdict: failed.verdict,
            class: &class.name,
            retryable: class.retryable,
            retry_after: failed.retry_after,
            chance: chance(),
        };
        let mut more = json!({"attempts": attempts, "max_attempts": held.max_attempts});
        if failed.class.is_some() {
            more["error_class"] = json!(class.name);
            more["known_class"] = json!(class.known);
        }
        let mut after = retry::after(&failure, &tries::policy_of(rules, &held.place));
        // The server's own worker was taken down: as bad as a lease that expired.
        if class.name == WORKER_DIED
            && matches!(after, After::Retry(_))
            && retry::is_poisonous(Facts::of(db, job_id).silent_before + 1, rules.max_crashes)
        {
            after = After::DeadLetter(Reason::Poison);
        }
        end(db, held, &ending, after, more, now)
    })
}

/// Does what the retry policy has decided to follow a failure.
fn end(db: &Db, held: &LockedLease, ending: &Ending<'_>, after: After, mut more: Value, now: Micros) -> Jsonb {
    let job_id = held.place.job_id;
    let state = match after {
        After::Retry(seconds) => {
            let at = now + (seconds * 1e6) as i64;
            settle::rest(db, held, ending, "retry_waiting", at, now);
            more["backoff_sec"] = whole_or_not(seconds);
            more["scheduled_at"] = iso(at);
            "retry_waiting"
        }
        After::DeadLetter(reason) => {
            let letter = settle::bury(db, job_id, ending, reason, &held.lease_owner, now);
            more["dead_letter_id"] = json!(letter.to_string());
            more["reason"] = json!(reason.name());
            "dead_letter"
        }
        After::Cancelled { letter } => {
            let ending = Ending { cancel_reason: ending.error.filter(|_| letter), ..*ending };
            settle::finish(db, job_id, "cancelled", &ending, now);
            if letter {
                let letter = settle::write_letter(db, job_id, &ending, Reason::Cancelled, &held.lease_owner, now);
                more["dead_letter_id"] = json!(letter.to_string());
            }
            "cancelled"
        }
        After::Failed => {
            settle::finish(db, job_id, "failed", ending, now);
            "failed"
        }
    };
    state_answer(state, state, job_id, more)
}

/// Whole seconds as a whole number.
fn whole_or_not(seconds: f64) -> Value {
    if seconds.fract() == 0.0 { json!(seconds as i64) } else { json!(seconds) }
}

/// Gives a held job back without cost, unless someone asked to cancel it meanwhile.
pub fn give_back(db: &Db, held: &LockedLease, outcome: &str, at: Micros, now: Micros) -> Jsonb {
    let job_id = held.place.job_id;
    if held.cancel_requested {
        let ending = Ending { outcome: "cancelled", ..Ending::default() };
        settle::finish(db, job_id, "cancelled", &ending, now);
        return state_answer("cancelled", "cancelled", job_id, json!({"attempts": held.attempts}));
    }
    settle::rest(db, held, &Ending { outcome, ..Ending::default() }, "queued", at, now);
    state_answer(outcome, "queued", job_id, json!({"attempts": held.attempts, "scheduled_at": iso(at)}))
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_release(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_lease_token: default!(Option<Uuid>, "NULL"),
) -> Jsonb {
    bounded!(fn_job_release: p_lease_owner);
    with_held(p_job_id, p_lease_owner, p_lease_token, |db, _, held, now| {
        give_back(db, held, "released", held.place.scheduled_at, now)
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_snooze(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_until: Option<TimestampWithTimeZone>,
    p_lease_token: default!(Option<Uuid>, "NULL"),
) -> Jsonb {
    bounded!(fn_job_snooze: p_lease_owner);
    let until = check_moment("p_until", required("p_until", p_until).into_inner()).or_raise();
    with_held(p_job_id, p_lease_owner, p_lease_token, |db, _, held, now| give_back(db, held, "snoozed", until, now))
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_cancel(p_job_id: Option<Uuid>, p_reason: default!(Option<&str>, "NULL")) -> Jsonb {
    bounded!(fn_job_cancel: p_reason);
    answer::if_on(|_| {
        let job_id = required("p_job_id", p_job_id);
        let reason = p_reason;
        let now = clock::now();
        db::answer(|db| match settle::seize(db, job_id) {
            Seized::Resting(_) => {
                let ending = Ending { outcome: "cancelled", cancel_reason: reason, ..Ending::default() };
                settle::finish(db, job_id, "cancelled", &ending, now);
                state_answer("cancelled", "cancelled", job_id, json!({}))
            }
            Seized::Held(held) => {
                db.run(&CANCEL_HELD, &[job_id.into(), timestamp(now).into(), reason.into()]);
                state_answer("cancel_requested", &held.state, job_id, json!({"lease_owner": held.lease_owner}))
            }
            Seized::Finished(state) => answer::already_finished(job_id, &state),
        })
    })
}

/// As the schema of the version before declares it.
#[pg_extern(sql = false)]
fn fn_job_move_to_dead_letter(p_job_id: Option<Uuid>, p_final_error: Option<&str>, p_moved_by: Option<&str>) -> Jsonb {
    move_with_reason(p_job_id, p_final_error, p_moved_by, Some("manual"))
}

/// Why a person gives a job up.
const REASONS: [&str; 2] = ["manual", "poison"];

#[pg_extern(name = "fn_job_move_to_dead_letter", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn move_with_reason(
    p_job_id: Option<Uuid>,
    p_final_error: Option<&str>,
    p_moved_by: default!(Option<&str>, "NULL"),
    p_letter_reason: default!(Option<&str>, "'manual'"),
) -> Jsonb {
    bounded!(fn_job_move_to_dead_letter: p_final_error, p_moved_by, p_letter_reason);
    let reason = match input::one_of("p_letter_reason", p_letter_reason.unwrap_or("manual"), &REASONS).or_raise() {
        "poison" => Reason::Poison,
        _ => Reason::Manual,
    };
    answer::if_on(|_| {
        let job_id = required("p_job_id", p_job_id);
        let error = required("p_final_error", p_final_error);
        input::name("p_final_error", error, usize::MAX).or_raise();
        let moved_by = p_moved_by.map(|by| input::name("p_moved_by", by, input::LONGEST_NAME).or_raise());
        let ending = Ending { outcome: "dead_letter", error: Some(error), ..Ending::default() };
        let now = clock::now();
        db::answer(|db| {
            if let Seized::Finished(state) = settle::seize(db, job_id) {
                answer::already_finished(job_id, &state)
            } else {
                let by = moved_by.map_or_else(actor, str::to_owned);
                let letter = settle::bury(db, job_id, &ending, reason, &by, now);
                state_answer(
                    "dead_letter",
                    "dead_letter",
                    job_id,
                    json!({"dead_letter_id": letter.to_string(), "reason": reason.name()}),
                )
            }
        })
    })
}
